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

/// Announced length of a body.
const LENGTH: usize = 80_000;
const PATH: &str = "/mutate-node-status";
/// Limit until the server closes such a connection.
const CUT_WITHIN: Duration = Duration::from_secs(30);

/// Raises the limit of open files of this process and its children to the hard limit.
pub fn raise_file_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("more open files");
}

/// Head of a request with this Content-Length.
pub fn head(path: &str, length: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: webhook\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    )
}

/// A connection after one answered request, so that the server keeps it open while idle.
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

/// Sends a head without a body and waits until the server closes the connection; returns the answer.
pub async fn withhold(mut stream: TlsStream<TcpStream>) -> String {
    // The server may close the connection before everything is sent.
    drop(stream.write_all(head(PATH, LENGTH).as_bytes()).await);
    drop(stream.flush().await);
    until_cut(stream).await
}

/// Sends one byte per second until the server answers or closes the connection.
pub async fn trickle(mut stream: TlsStream<TcpStream>) {
    if stream.write_all(head(PATH, LENGTH).as_bytes()).await.is_err() {
        return;
    }
    let mut answer = [0; 1024];
    loop {
        if stream.write_all(b" ").await.is_err() || stream.flush().await.is_err() {
            return;
        }
        // The server answered or closed the connection.
        let read = timeout(Duration::from_secs(1), stream.read(&mut answer));
        if read.await.is_ok() {
            return;
        }
    }
}

/// Waits until the server closes the connection; returns the answer.
pub async fn until_cut(mut stream: TlsStream<TcpStream>) -> String {
    let mut answer = Vec::new();
    let read = timeout(CUT_WITHIN, stream.read_to_end(&mut answer)).await;
    // A reset closes the connection too.
    drop(read.expect("an end"));
    String::from_utf8_lossy(&answer).into_owned()
}
