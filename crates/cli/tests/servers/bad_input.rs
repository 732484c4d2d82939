//! Tests of the built binary with a broken server, kubeconfig, credential, terminal or pipe. Each error is one line with the
//! attempted action and the fix.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    net::TcpListener,
    path::{Path, PathBuf},
    process::Stdio,
};

use rstest::rstest;
use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{self, LoopbackServer, command, text};

/// A folder with a kubeconfig whose context `prod` has this server.
fn kubeconfig(server: &str, user: &Value) -> (TempDir, PathBuf) {
    support::kubeconfig(&json!({"server": server}), user)
}

/// The only line of error output of a command with a kubeconfig.
fn error_line(file: &Path, words: &[&str]) -> String {
    support::error_line(words, &[("KUBECONFIG", text(file))])
}

/// URL of a port without a listener.
fn closed_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}/", listener.local_addr().unwrap())
}

#[rstest]
#[case::asks_the_webhook(&["top", "--once"], "cannot read the webhook's CA")]
#[case::writes_nodes(&["off"], "cannot read the nodes")]
fn an_unreachable_server_is_named_with_its_context(#[case] words: &[&str], #[case] attempt: &str) {
    let url = closed_port();
    let (_place, file) = kubeconfig(&url, &json!({}));
    let line = error_line(&file, words);
    assert!(
        line.starts_with(&format!("{attempt}: the API server at {url} (context prod) "))
            && line.contains("Connection refused")
            && line.ends_with("see --context and --kubeconfig"),
        "{line}"
    );
}

#[test]
fn an_unreachable_webhook_address_is_named() {
    let addr = closed_port();
    let addr = addr.trim_start_matches("http://").trim_end_matches('/');
    let (place, file) = kubeconfig("http://127.0.0.1:1", &json!({}));
    let ca = place.path().join("ca.crt");
    fs::write(&ca, "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n").unwrap();
    let token = place.path().join("token");
    fs::write(&token, "t").unwrap();
    let flags = [
        "top".to_owned(),
        format!("--addr={addr}"),
        format!("--ca-file={}", ca.display()),
        format!("--token-file={}", token.display()),
    ];
    let line = error_line(&file, &flags.each_ref().map(String::as_str));
    assert!(line.starts_with(&format!("cannot connect to {addr}: ")), "{line}");
    assert!(line.contains("--addr and HEADROOM_ADDR"), "{line}");
}

#[rstest]
#[case::expired(
    401,
    "Unauthorized",
    &["cannot read the webhook's CA: ", "Unauthorized", "log in again", "--context"]
)]
#[case::another_cluster(
    404,
    "\"headroom-webhook\" not found",
    &["cannot read the webhook's CA: ", "\"headroom-webhook\" not found", "is Headroom installed", "--namespace"]
)]
fn a_refusal_of_the_api_server_is_printed_with_the_fix(
    #[case] code: u16,
    #[case] message: &str,
    #[case] expected: &[&str],
) {
    let server = LoopbackServer::refusing(code, message);
    let (_place, file) = kubeconfig(&format!("http://{}", server.addr), &json!({"token": "expired"}));
    let line = error_line(&file, &["top", "--once"]);
    assert!(expected.iter().all(|part| line.contains(part)), "{line}");
}

#[test]
fn a_failing_credential_plugin_is_named_with_its_context() {
    let exec = json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never", "command": "/nonexistent/login",
    }});
    let (_place, file) = kubeconfig("http://127.0.0.1:1", &exec);
    let line = error_line(&file, &["top", "--once"]);
    assert!(
        line.contains("credential of context prod: ")
            && line.contains("No such file or directory")
            && line.contains("log in again"),
        "{line}"
    );
}

#[test]
fn a_missing_kubeconfig_or_context_is_named() {
    let (place, file) = kubeconfig("http://127.0.0.1:1", &json!({}));
    assert_eq!(
        error_line(&file, &["top", "--context", "prd"]),
        "cannot use the kubeconfig: it has no context \"prd\"; did you mean prod?"
    );
    assert_eq!(
        error_line(&file, &["off", "--context", "elsewhere"]),
        "cannot use the kubeconfig: it has no context \"elsewhere\"; see `kubectl config get-contexts`"
    );
    let absent = place.path().join("absent");
    let line = error_line(&file, &["top", "--kubeconfig", absent.to_str().unwrap()]);
    assert_eq!(
        line,
        format!(
            "cannot use the kubeconfig: cannot read {}: No such file or directory (os error 2); see --kubeconfig and --context",
            absent.display()
        )
    );
    let torn = place.path().join("torn");
    fs::write(&torn, "contexts: [").unwrap();
    let line = error_line(&file, &["top", "--kubeconfig", torn.to_str().unwrap()]);
    assert!(
        line.starts_with("cannot use the kubeconfig: ") && line.ends_with("; see --kubeconfig and --context"),
        "{line}"
    );
}

/// A pipe without a reader.
fn closed_pipe() -> Stdio {
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    writer.into()
}

#[rstest]
#[case::table(&["reasons"], 0)]
#[case::json(&["reasons", "-o", "json"], 0)]
#[case::help(&["--help"], 0)]
#[case::completions(&["completions", "bash"], 0)]
fn a_closed_reader_is_no_error(#[case] words: &[&str], #[case] code: i32) {
    let output = command(words).stdout(closed_pipe()).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), told.as_str()), (Some(code), ""));
}

#[rstest]
#[case::error(&["off"], 1)]
#[case::usage(&["tpo"], 2)]
fn an_unread_error_has_its_exit_code(#[case] words: &[&str], #[case] code: i32) {
    let (_place, file) = kubeconfig(&closed_port(), &json!({}));
    let mut command = command(words);
    let status = command.env("KUBECONFIG", &file).stderr(closed_pipe()).status();
    assert_eq!(status.unwrap().code(), Some(code));
}

/// Runs a command on a terminal with this number of columns and returns exit code and output.
fn on_terminal(columns: u16, words: &[&str]) -> (Option<i32>, String) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let size = Winsize {
        ws_row: 24,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&terminal, size).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let side = || {
        let mut options = File::options();
        options
            .read(true)
            .write(true)
            .open(name.to_str().unwrap())
            .unwrap()
    };
    let mut command = command(words);
    command.env("TERM", "xterm").stdout(side()).stderr(side());
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut shown = Vec::new();
    // Reading fails with EIO once the last process has closed the terminal.
    if let Err(error) = File::from(terminal).read_to_end(&mut shown) {
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()));
    }
    (child.wait().unwrap().code(), String::from_utf8(shown).unwrap())
}

#[rstest]
#[case::table(&["reasons"], 0, "hint")]
#[case::help(&["off", "--help"], 0, "--now")]
#[case::usage(&["tpo"], 2, "tpo")]
#[case::error(&["top", "--kubeconfig", "/nonexistent/config"], 1, "error: cannot use the kubeconfig")]
fn narrow_terminals_are_supported(#[case] words: &[&str], #[case] code: i32, #[case] expected: &str) {
    for columns in [1, 20] {
        let (found, shown) = on_terminal(columns, words);
        assert_eq!(found, Some(code), "{shown}");
        assert!(shown.contains(expected) && !shown.contains("panicked"), "{shown}");
    }
}
