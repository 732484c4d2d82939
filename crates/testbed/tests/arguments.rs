//! Tests of the command lines of `headroom-cluster` and `headroom-load`: help and wrong arguments start nothing.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::process::{Command, Output};

const CLUSTER: &str = env!("CARGO_BIN_EXE_headroom-cluster");
const LOAD: &str = env!("CARGO_BIN_EXE_headroom-load");

fn run(program: &str, argument: &str) -> Output {
    let mut command = Command::new(program);
    command.arg(argument).output().expect("start the program")
}

#[test]
fn help_prints_the_usage_and_starts_nothing() {
    for (program, name) in [(CLUSTER, "headroom-cluster"), (LOAD, "headroom-load")] {
        let output = run(program, "--help");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        assert_eq!(output.status.code(), Some(0), "{name}");
        assert!(text.contains(&format!("Usage: {name}")), "{text}");
        assert!(output.stderr.is_empty(), "{name}");
    }
}

#[test]
fn unknown_argument_is_an_error_with_exit_code_2() {
    for program in [CLUSTER, LOAD] {
        for argument in ["--unknown", "unknown"] {
            let output = run(program, argument);
            let error = String::from_utf8(output.stderr).expect("UTF-8");
            assert_eq!(output.status.code(), Some(2), "{program} {argument}");
            assert!(error.contains("unknown") && output.stdout.is_empty(), "{error}");
        }
    }
}
