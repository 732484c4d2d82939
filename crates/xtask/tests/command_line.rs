//! Tests of the `cargo xtask` command line: the list of commands, and errors for wrong arguments.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::process::{Command, Output};

fn xtask(arguments: &[&str]) -> Output {
    let mut xtask = Command::new(env!("CARGO_BIN_EXE_xtask"));
    xtask.args(arguments).output().expect("run xtask")
}

#[test]
fn help_lists_all_commands() {
    let output = xtask(&["help"]);
    let text = String::from_utf8(output.stdout).expect("text");
    for command in [
        "setup", "cluster", "demo", "test", "images", "fuzz", "mutants", "deny", "generate", "cases", "bench",
    ] {
        let row = format!("  {command} ");
        assert!(
            text.lines().any(|line| line.starts_with(&row)),
            "{command}: {text}"
        );
    }
}

#[test]
fn demo_time_below_90_s_is_refused_before_any_build() {
    let output = xtask(&["demo", "--for", "60s"]);
    let text = String::from_utf8(output.stderr).expect("text");
    assert!(
        !output.status.success() && text.contains("at least 90 s"),
        "{text}"
    );
}

#[test]
fn unknown_long_part_is_refused_with_the_list_of_parts() {
    let output = xtask(&["test", "--long", "everything"]);
    let text = String::from_utf8(output.stderr).expect("text");
    assert!(
        text.contains("everything") && text.contains("interleavings"),
        "{text}"
    );
}

#[test]
fn programs_of_an_image_come_from_one_place() {
    let output = xtask(&["images", "--relink", "--binaries", "."]);
    let text = String::from_utf8(output.stderr).expect("text");
    assert!(
        !output.status.success() && text.contains("cannot be used with"),
        "{text}"
    );
}

#[test]
fn programs_for_another_architecture_must_be_ready() {
    let other = if cfg!(target_arch = "aarch64") {
        "amd64"
    } else {
        "arm64"
    };
    let output = xtask(&["images", "--arch", other]);
    let text = String::from_utf8(output.stderr).expect("text");
    assert!(
        !output.status.success() && text.contains(other) && text.contains("--binaries"),
        "{text}"
    );
}
