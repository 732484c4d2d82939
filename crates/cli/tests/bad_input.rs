//! Tests of the built binary where something around it is wrong: a server, a kubeconfig, a credential, a terminal, a pipe. Each
//! error is one line that says what was tried and what to do.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test panics where it breaks")]

use std::{
    fs::{self, File},
    io::{self, Read as _, Write as _},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
};

use rstest::rstest;
use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};
use serde_json::json;
use tempfile::TempDir;

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-headroom"));
    command.args(words).env_clear().stdin(Stdio::null());
    command
}

/// A folder with a kubeconfig whose context `prod` leads to that server.
fn kubeconfig(server: &str, user: &serde_json::Value) -> (TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "prod",
        "contexts": [{"name": "prod", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
    });
    let file = place.path().join("config");
    fs::write(&file, config.to_string()).unwrap();
    (place, file)
}

/// Runs a command with that kubeconfig. The one line that it complains in.
fn complaint(file: &Path, words: &[&str]) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = command(words).env("KUBECONFIG", file).output().unwrap();
    let text = String::from_utf8(stderr).unwrap();
    assert_eq!((status.code(), stdout.as_slice()), (Some(1), &b""[..]), "{text}");
    let line = text.strip_prefix("error: ").unwrap();
    let line = line.strip_suffix('\n').unwrap();
    assert!(!line.contains('\n'), "{text}");
    line.to_owned()
}

/// A port at which nobody listens.
fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}/", listener.local_addr().unwrap())
}

/// An API server that answers everything with this.
fn server(code: u16, message: &str) -> String {
    let body = json!({"kind": "Status", "status": "Failure", "code": code, "message": message}).to_string();
    let answer = format!(
        "HTTP/1.1 {code} Refused\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let _read = stream.read(&mut request).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    url
}

#[rstest]
#[case::asks_the_webhook(&["top", "--once"], "cannot read the webhook's CA")]
#[case::writes_nodes(&["off"], "cannot read the nodes")]
fn a_server_that_does_not_answer_is_named_with_its_context(#[case] words: &[&str], #[case] attempt: &str) {
    let url = nobody();
    let (_place, file) = kubeconfig(&url, &json!({}));
    assert_eq!(
        complaint(&file, words),
        format!(
            "{attempt}: the API server at {url} (context prod) cannot be reached: Connection refused (os error 111); see \
             --context and --kubeconfig"
        )
    );
}

#[test]
fn a_webhook_address_that_does_not_answer_is_named() {
    let addr = nobody();
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
    let line = complaint(&file, &flags.each_ref().map(String::as_str));
    assert!(line.starts_with(&format!("cannot connect to {addr}: ")), "{line}");
    assert!(
        line.ends_with("without --addr and HEADROOM_ADDR the API server forwards the port"),
        "{line}"
    );
}

#[rstest]
#[case::expired(
    401,
    "Unauthorized",
    "cannot read the webhook's CA: the API server does not accept the kubeconfig's credential: Unauthorized; it may have expired: \
     log in again, or see --context"
)]
#[case::another_cluster(
    404,
    "\"headroom-webhook\" not found",
    "cannot read the webhook's CA: \"headroom-webhook\" not found; is Headroom installed in this cluster? See --context, --namespace and \
     --name-suffix"
)]
fn what_an_api_server_refuses_is_told_with_what_to_do(
    #[case] code: u16,
    #[case] message: &str,
    #[case] expected: &str,
) {
    let (_place, file) = kubeconfig(&server(code, message), &json!({"token": "expired"}));
    assert_eq!(complaint(&file, &["top", "--once"]), expected);
}

#[test]
fn a_credential_that_cannot_be_had_is_told() {
    let exec = json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never", "command": "/nonexistent/login",
    }});
    let (_place, file) = kubeconfig("http://127.0.0.1:1", &exec);
    let line = complaint(&file, &["top", "--once"]);
    assert!(
        line.contains("the credential of context prod cannot be used: ")
            && line.contains("No such file or directory")
            && line.ends_with("log in again, or see --context"),
        "{line}"
    );
}

#[test]
fn a_kubeconfig_or_context_that_is_not_there_is_told() {
    let (place, file) = kubeconfig("http://127.0.0.1:1", &json!({}));
    assert_eq!(
        complaint(&file, &["top", "--context", "prd"]),
        "cannot use the kubeconfig: it has no context \"prd\"; did you mean prod?"
    );
    assert_eq!(
        complaint(&file, &["off", "--context", "elsewhere"]),
        "cannot use the kubeconfig: it has no context \"elsewhere\"; see `kubectl config get-contexts`"
    );
    let absent = place.path().join("absent");
    let line = complaint(&file, &["top", "--kubeconfig", absent.to_str().unwrap()]);
    assert_eq!(
        line,
        format!(
            "cannot use the kubeconfig: cannot read {}: No such file or directory (os error 2); see --kubeconfig and --context",
            absent.display()
        )
    );
    let torn = place.path().join("torn");
    fs::write(&torn, "contexts: [").unwrap();
    let line = complaint(&file, &["top", "--kubeconfig", torn.to_str().unwrap()]);
    assert!(
        line.starts_with("cannot use the kubeconfig: ") && line.ends_with("; see --kubeconfig and --context"),
        "{line}"
    );
}

/// A pipe that nobody reads.
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
fn a_reader_that_has_seen_enough_is_no_error(#[case] words: &[&str], #[case] code: i32) {
    let output = command(words).stdout(closed_pipe()).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), told.as_str()), (Some(code), ""));
}

#[rstest]
#[case::error(&["off"], 1)]
#[case::usage(&["tpo"], 2)]
fn an_error_that_nobody_reads_has_its_exit_code(#[case] words: &[&str], #[case] code: i32) {
    let (_place, file) = kubeconfig(&nobody(), &json!({}));
    let mut command = command(words);
    let status = command.env("KUBECONFIG", &file).stderr(closed_pipe()).status();
    assert_eq!(status.unwrap().code(), Some(code));
}

/// Runs a command on a terminal of so many columns; its exit code and what the terminal shows.
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
    // The terminal says that it is hung up once the last process has closed it.
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
fn a_terminal_of_twenty_columns_is_written_to(
    #[case] words: &[&str],
    #[case] code: i32,
    #[case] expected: &str,
) {
    for columns in [1, 20] {
        let (found, shown) = on_terminal(columns, words);
        assert_eq!(found, Some(code), "{shown}");
        assert!(shown.contains(expected) && !shown.contains("panicked"), "{shown}");
    }
}
