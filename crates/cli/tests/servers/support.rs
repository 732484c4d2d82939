//! Loopback servers and kubeconfigs for tests of the built binary.

use std::{
    fs,
    io::{self, Read, Write as _},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use serde_json::{Value, json};
use tempfile::TempDir;

/// A server on a loopback port. It answers each connection with one function, in a thread of its own.
pub(crate) struct LoopbackServer {
    /// `HOST:PORT`.
    pub(crate) addr: String,
    heads: Arc<Mutex<Vec<String>>>,
}

impl LoopbackServer {
    /// Starts a server that records the head of each connection's first request and passes it to `answer`.
    pub(crate) fn start(
        answer: impl Fn(&str, &mut TcpStream) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap().to_string();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let (kept, answer) = (Arc::clone(&heads), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, kept, answer) = (stream.unwrap(), Arc::clone(&kept), Arc::clone(&answer));
                thread::spawn(move || {
                    let Ok(head) = read_head(&mut stream) else {
                        return;
                    };
                    kept.lock().unwrap().push(head.clone());
                    // The client may be gone.
                    answer(&head, &mut stream).ok();
                });
            }
        });
        Self { addr, heads }
    }

    /// Starts a server that answers each request with this status and a Kubernetes `Status`.
    pub(crate) fn refusing(code: u16, message: &str) -> Self {
        let body = json!({"kind": "Status", "status": "Failure", "code": code, "message": message});
        Self::answering(&format!("{code} Refused"), &body.to_string())
    }

    pub(crate) fn answering(status: &str, body: &str) -> Self {
        let answer = http_answer(status, body);
        Self::start(move |_, stream| stream.write_all(answer.as_bytes()))
    }

    /// Heads of the requests so far.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

pub(crate) fn http_answer(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// Reads up to the empty line after the headers.
pub(crate) fn read_head(stream: &mut impl Read) -> io::Result<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// Copies bytes between the two connections until one side ends.
pub(crate) fn relay(client: &TcpStream, server: &TcpStream) -> io::Result<()> {
    let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || io::copy(&mut from, &mut to));
    io::copy(&mut &*server, &mut &*client).map(drop)
}

/// The built binary with these arguments and an empty environment.
pub(crate) fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-headroom"));
    command.args(words).env_clear().stdin(Stdio::null());
    command
}

/// Runs the built binary with these variables only.
pub(crate) fn run(words: &[&str], variables: &[(&str, &str)]) -> Output {
    command(words).envs(variables.iter().copied()).output().unwrap()
}

/// The only line of error output, without `error: `.
pub(crate) fn error_line(words: &[&str], variables: &[(&str, &str)]) -> String {
    let output = run(words, variables);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        (output.status.code(), output.stdout.as_slice()),
        (Some(1), &b""[..]),
        "{text}"
    );
    let line = text
        .strip_prefix("error: ")
        .and_then(|line| line.strip_suffix('\n'));
    assert!(line.is_some_and(|line| !line.contains('\n')), "{text}");
    line.unwrap_or_default().to_owned()
}

/// A folder with a kubeconfig whose context `prod` has this cluster and user.
pub(crate) fn kubeconfig(cluster: &Value, user: &Value) -> (TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "prod",
        "contexts": [{"name": "prod", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    });
    let file = place.path().join("config");
    fs::write(&file, config.to_string()).unwrap();
    (place, file)
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
