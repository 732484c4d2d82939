//! Connections to an admission port that send a review's body late or never.

use std::time::Duration;

use headroom_testbed::webhook::Webhook;
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::client::TlsStream;

use crate::admission::secure;

/// How long a body is said to be.
const LENGTH: usize = 80_000;
const PATH: &str = "/mutate-node-status";
/// How long the server may let such a connection live.
const CUT_WITHIN: Duration = Duration::from_secs(30);

/// Lets this process, and those that it starts, have as many files open as it may at most.
pub fn raise_file_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("more open files");
}

/// The head of a review, of a body that is that long.
pub fn head(path: &str, length: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: webhook\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    )
}

/// A connection that was of use once, so that it may be idle.
pub async fn connected(webhook: &Webhook) -> TlsStream<TcpStream> {
    let mut stream = secure(webhook).await;
    let request = format!("GET {PATH} HTTP/1.1\r\nhost: webhook\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("a request");
    stream.flush().await.expect("a request");
    let mut answer = [0; 1024];
    let length = stream.read(&mut answer).await.expect("an answer");
    assert!(length > 0 && answer.starts_with(b"HTTP/1.1 405 "));
    stream
}

/// Sends a head and withholds its body until the server closes the connection; what it says.
pub async fn withhold(mut stream: TlsStream<TcpStream>) -> String {
    // Who is given up for others may be cut before all is sent.
    drop(stream.write_all(head(PATH, LENGTH).as_bytes()).await);
    drop(stream.flush().await);
    until_cut(stream).await
}

/// A byte a second until the server has enough.
pub async fn trickle(mut stream: TlsStream<TcpStream>) {
    if stream.write_all(head(PATH, LENGTH).as_bytes()).await.is_err() {
        return;
    }
    let mut answer = [0; 1024];
    loop {
        if stream.write_all(b" ").await.is_err() || stream.flush().await.is_err() {
            return;
        }
        // An answer, or an end.
        let read = timeout(Duration::from_secs(1), stream.read(&mut answer));
        if read.await.is_ok() {
            return;
        }
    }
}

/// Waits until the server closes the connection; what it says.
pub async fn until_cut(mut stream: TlsStream<TcpStream>) -> String {
    let mut answer = Vec::new();
    let read = timeout(CUT_WITHIN, stream.read_to_end(&mut answer)).await;
    // A reset is an end, too.
    drop(read.expect("an end"));
    String::from_utf8_lossy(&answer).into_owned()
}
