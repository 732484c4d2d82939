//! [`RawHttp2`]: a client of a hint port that writes HTTP/2 frames itself, so that it can break rules that libraries keep:
//! a window of zero, withheld messages, needless headers.

use std::{io, net::Ipv4Addr};

use headroom_domain::installation::Installation;
use headroom_kit::tls::client;
use headroom_testbed::webhook::Webhook;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::stranger::connect_from;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// Setting of the window of each stream.
const INITIAL_WINDOW: u16 = 4;
/// Longest frame that is sent.
const LONGEST_FRAME: usize = 16_384;

/// One connection, over TLS.
#[derive(Debug)]
pub struct RawHttp2(TlsStream<TcpStream>);

impl RawHttp2 {
    /// Connects from this address, and allows the server to send `window` bytes on each stream.
    ///
    /// # Errors
    /// If the server does not accept the connection.
    pub async fn connect(webhook: &Webhook, from: Ipv4Addr, window: u32) -> io::Result<Self> {
        let tls = client::client_config(&webhook.ca, None, &["h2"]).expect("client settings");
        let name = client::server_name(&Installation::default().hints_host()).expect("server name");
        let tcp = connect_from(from, webhook.hints).await?;
        let mut connection = Self(TlsConnector::from(tls).connect(name, tcp).await?);
        let mut begin = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        let mut settings = INITIAL_WINDOW.to_be_bytes().to_vec();
        settings.extend(window.to_be_bytes());
        begin.extend(frame(SETTINGS, 0, 0, &settings));
        connection.send(&begin).await?;
        Ok(connection)
    }

    /// Sends frames.
    ///
    /// # Errors
    /// If the server has closed the connection.
    pub async fn send(&mut self, frames: &[u8]) -> io::Result<()> {
        self.0.write_all(frames).await?;
        self.0.flush().await
    }

    /// Waits for the first response: true if its stream stays open, as of a call that is not refused.
    ///
    /// # Errors
    /// If the server closes the connection.
    pub async fn is_accepted(&mut self) -> io::Result<bool> {
        loop {
            let mut head = [0; 9];
            self.0.read_exact(&mut head).await?;
            let [high, middle, low, kind, flags, ..] = head;
            let length = u32::from_be_bytes([0, high, middle, low]);
            let mut payload = vec![0; usize::try_from(length).expect("a length")];
            self.0.read_exact(&mut payload).await?;
            if kind == HEADERS {
                return Ok(flags & END_STREAM == 0);
            }
        }
    }

    /// Reads and drops data until the server closes the connection.
    pub async fn until_closed(&mut self) {
        let mut sink = [0; 4096];
        while self.0.read(&mut sink).await.is_ok_and(|count| count > 0) {}
    }
}

/// Sends most of a ClientHello of the greatest length, and waits until the server closes the connection.
///
/// # Errors
/// If the server does not accept the connection.
pub async fn withhold_handshake(webhook: &Webhook, from: Ipv4Addr) -> io::Result<()> {
    let mut stream = connect_from(from, webhook.hints).await?;
    // A message of type ClientHello with a length of 64 KiB less one, in records of 16 KiB.
    let mut hello = vec![1, 0, 0xff, 0xff];
    hello.resize(60_000, 0);
    for piece in hello.chunks(LONGEST_FRAME) {
        let length = u16::try_from(piece.len()).expect("a length").to_be_bytes();
        stream.write_all(&[22, 3, 1]).await?;
        stream.write_all(&length).await?;
        stream.write_all(piece).await?;
    }
    let mut sink = [0; 512];
    while stream.read(&mut sink).await.is_ok_and(|count| count > 0) {}
    Ok(())
}

/// The head of a gRPC call.
pub fn call(stream: u32, path: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    let of_grpc = [
        (":method", "POST"),
        (":scheme", "https"),
        (":authority", "a"),
        (":path", path),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    let mut block = Vec::new();
    for (name, value) in of_grpc.iter().chain(headers) {
        // A literal without indexing, with a new name.
        block.push(0);
        text(&mut block, name);
        text(&mut block, value);
    }
    frame(HEADERS, END_HEADERS, stream, &block)
}

/// A gRPC message of a call, which is the last if `is_last`.
pub fn message(stream: u32, content: &[u8], is_last: bool) -> Vec<u8> {
    let mut bytes = vec![0];
    bytes.extend(u32::try_from(content.len()).expect("a length").to_be_bytes());
    bytes.extend(content);
    let mut frames = Vec::new();
    let mut pieces = bytes.chunks(LONGEST_FRAME).peekable();
    while let Some(piece) = pieces.next() {
        let flags = if is_last && pieces.peek().is_none() {
            END_STREAM
        } else {
            0
        };
        frames.extend(frame(DATA, flags, stream, piece));
    }
    frames
}

/// A text of HPACK without compression.
fn text(block: &mut Vec<u8>, text: &str) {
    let mut rest = text.len();
    // The length takes seven bits, and then seven bits in each further byte.
    if rest < 127 {
        block.push(u8::try_from(rest).expect("seven bits"));
    } else {
        block.push(127);
        rest -= 127;
        while rest >= 128 {
            block.push(u8::try_from(rest % 128 + 128).expect("a byte"));
            rest /= 128;
        }
        block.push(u8::try_from(rest).expect("seven bits"));
    }
    block.extend(text.as_bytes());
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    assert!(payload.len() <= LONGEST_FRAME, "{} bytes", payload.len());
    let length = u32::try_from(payload.len()).expect("a length").to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}
