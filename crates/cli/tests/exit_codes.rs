//! Tests of the exit codes of the built binary. 0: success, 1: error, 2: wrong usage. `config check`: 0 accepted, 1 refused,
//! 2 undecided.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test panics where it breaks")]

use std::{
    io::Write as _,
    process::{Command, Output, Stdio},
};

fn run(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kubectl-headroom"))
        .args(words)
        .env_clear()
        .env("KUBECONFIG", "/dev/null")
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn help_and_completions_succeed() {
    for (words, expected) in [
        (&["--help"][..], "kubectl headroom explain worker-1"),
        (&["completions", "bash"], "complete -F"),
    ] {
        let output = run(words);
        assert_eq!(output.status.code(), Some(0));
        assert!(
            text(&output.stdout).contains(expected),
            "{}",
            text(&output.stdout)
        );
    }
}

#[test]
fn a_link_with_the_completion_name_completes() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("kubectl_complete-headroom");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kubectl-headroom"), &link).unwrap();
    let completed = |words: &[&str]| {
        let output = Command::new(&link)
            .args(words)
            .env_clear()
            .env("KUBECONFIG", "/dev/null")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let commands = completed(&["ex"]);
    assert!(
        commands.starts_with("explain\t") && commands.ends_with("\n:4\n"),
        "{commands}"
    );
    assert_eq!(
        completed(&["top", "-o", "j"]),
        "json\tJSON; numbers are integers, with the unit in the key\n:4\n"
    );
    // Without a cluster, no nodes are offered.
    assert_eq!(completed(&["explain", ""]), ":4\n");
    assert_eq!(completed(&["--ca-file", ""]), ":0\n");
}

#[test]
fn wrong_usage_has_its_own_exit_code() {
    for words in [
        &["tpo"][..],
        &["top", "--twice"],
        &["--addr", "nowhere", "top"],
        &["node"],
    ] {
        let output = run(words);
        assert_eq!(
            (output.status.code(), text(&output.stdout).as_str()),
            (Some(2), ""),
            "{words:?}"
        );
    }
}

#[test]
fn an_error_is_one_line_with_its_cause() {
    let output = run(&[
        "top",
        "--ca-file",
        "/nonexistent/ca.crt",
        "--token-file",
        "/nonexistent/token",
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        text(&output.stderr),
        "error: cannot read /nonexistent/ca.crt: No such file or directory (os error 2)\n"
    );
}

#[test]
fn a_missing_agent_socket_is_an_error_with_the_fix() {
    let output = run(&["agent", "status", "--socket", "/nonexistent/agent.sock"]);
    assert_eq!(output.status.code(), Some(1));
    let told = text(&output.stderr);
    assert!(
        told.contains("/nonexistent/agent.sock") && told.contains("--debug-socket"),
        "{told}"
    );
}

/// Checks a ConfigMap with this value of a key, from standard input.
fn check(text: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_kubectl-headroom"))
        .args(["config", "check", "-"])
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let object = format!(
        "kind: ConfigMap\nmetadata: {{name: slo-controller-config}}\ndata:\n  colocation-config: {text}\n"
    );
    child.stdin.take().unwrap().write_all(object.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn refused_and_undecided_versions_have_different_exit_codes() {
    for (text, code, stdout, stderr) in [
        ("'{}'", 0, "accepted: ConfigMap ", ""),
        (
            "'{'",
            1,
            "refused: ConfigMap ",
            "error: ConfigMap koordinator-system/slo-controller-config would be refused\n",
        ),
        (
            "{}",
            2,
            "",
            "error: cannot decide: -: data[colocation-config] is not a string",
        ),
    ] {
        let output = check(text);
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(self::text(&output.stdout).starts_with(stdout), "{output:?}");
        assert!(self::text(&output.stderr).starts_with(stderr), "{output:?}");
    }
    let output = run(&["config", "check"]);
    assert_eq!(output.status.code(), Some(2));
}
