//! Tests of the command lines of `headroom-generate` and `headroom-cases`: help and wrong arguments read and write nothing.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::process::{Command, Output};

const GENERATE: &str = env!("CARGO_BIN_EXE_headroom-generate");
const CASES: &str = env!("CARGO_BIN_EXE_headroom-cases");

fn run(program: &str, argument: &str) -> Output {
    let mut command = Command::new(program);
    command.arg(argument).output().expect("start the program")
}

#[test]
fn help_prints_the_usage() {
    for (program, usage) in [
        (GENERATE, "Usage: cargo xtask generate"),
        (CASES, "Usage: cargo xtask cases"),
    ] {
        let output = run(program, "--help");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(output.status.success() && text.contains(usage), "{text}");
        assert!(output.stderr.is_empty(), "{program}");
    }
}

#[test]
fn unknown_argument_is_an_error_with_exit_code_2() {
    for program in [GENERATE, CASES] {
        let output = run(program, "--unknown");
        assert_eq!(output.status.code(), Some(2), "{program}");
        assert!(output.stdout.is_empty(), "{program}");
    }
}
