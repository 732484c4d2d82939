//! `BufferedStream`: an agent's end of a gRPC stream, with minimal memory. Thousands of them share the process with
//! the server whose memory is measured, and a full HTTP/2 client needs as much memory as its server.
//!
//! It opens one stream, sends messages on it and reads those of the server. Its initial windows hold more than a
//! server sends in an hour; its own messages are small and are sent without flow control.

use anyhow::{Context as _, Result, bail};
use prost::Message;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Initial windows of stream and connection, in bytes.
const WINDOW: u32 = 16 << 20;
/// Default maximum frame size of HTTP/2, in bytes.
const LARGEST_FRAME: usize = 16 << 10;
const STREAM: u32 = 1;
/// Frame types (RFC 9113, section 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const ACK: u8 = 0x1;
const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
/// Identifier of a setting, and prefix of an HPACK field that is not indexed.
const INITIAL_WINDOW_SIZE: u16 = 4;
const LITERAL: u8 = 0;

/// The stream and its unparsed bytes.
#[derive(Debug)]
pub(super) struct BufferedStream<S> {
    stream: S,
    read: Vec<u8>,
    message: Vec<u8>,
}

#[derive(Debug, PartialEq)]
pub(super) enum Event<M> {
    Opened,
    Message(M),
}

impl<S: AsyncRead + AsyncWrite + Unpin> BufferedStream<S> {
    /// Opens the stream of a method with a bearer token.
    ///
    /// # Errors
    /// If the connection breaks.
    pub(super) async fn open(mut stream: S, path: &str, token: &str) -> Result<Self> {
        let mut fields = Vec::with_capacity(token.len() + 160);
        let bearer = format!("Bearer {token}");
        for (name, value) in [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", "hints"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
            ("authorization", &bearer),
        ] {
            fields.push(LITERAL);
            push_text(&mut fields, name);
            push_text(&mut fields, value);
        }
        let mut settings = INITIAL_WINDOW_SIZE.to_be_bytes().to_vec();
        settings.extend(WINDOW.to_be_bytes());
        let mut head = PREFACE.to_vec();
        push_frame(&mut head, SETTINGS, 0, 0, &settings)?;
        push_frame(&mut head, WINDOW_UPDATE, 0, 0, &WINDOW.to_be_bytes())?;
        push_frame(&mut head, HEADERS, END_HEADERS, STREAM, &fields)?;
        stream.write_all(&head).await?;
        stream.flush().await?;
        Ok(Self {
            stream,
            read: Vec::new(),
            message: Vec::new(),
        })
    }

    /// # Errors
    /// If the connection breaks.
    pub(super) async fn send(&mut self, message: &impl Message) -> Result<()> {
        let length = message.encoded_len();
        let mut data = Vec::with_capacity(length + 5);
        data.push(0);
        data.extend(u32::try_from(length)?.to_be_bytes());
        message.encode(&mut data)?;
        let mut frames = Vec::with_capacity(length + 32);
        for part in data.chunks(LARGEST_FRAME) {
            push_frame(&mut frames, DATA, 0, STREAM, part)?;
        }
        self.stream.write_all(&frames).await?;
        self.stream.flush().await?;
        Ok(())
    }

    /// The server's next event. Cancel safe, except while it answers SETTINGS and PING, which are short.
    ///
    /// # Errors
    /// If the stream or the connection ends.
    pub(super) async fn receive<M: Message + Default>(&mut self) -> Result<Event<M>> {
        loop {
            if let Some(message) = self.pop_message()? {
                return Ok(Event::Message(message));
            }
            if let Some(Frame { kind, flags, payload }) = self.pop_frame()? {
                match kind {
                    DATA => self.message.extend(payload),
                    HEADERS if flags & END_STREAM == 0 => return Ok(Event::Opened),
                    HEADERS | RST_STREAM | GOAWAY => bail!("the server ended the stream"),
                    SETTINGS | PING if flags & ACK == 0 => self.acknowledge(kind, &payload).await?,
                    _ => {}
                }
                continue;
            }
            self.read.reserve(1 << 10);
            if self.stream.read_buf(&mut self.read).await? == 0 {
                bail!("the connection ended");
            }
        }
    }

    async fn acknowledge(&mut self, kind: u8, payload: &[u8]) -> Result<()> {
        let mut frame = Vec::new();
        let echoed = if kind == PING { payload } else { &[] };
        push_frame(&mut frame, kind, ACK, 0, echoed)?;
        self.stream.write_all(&frame).await?;
        Ok(self.stream.flush().await?)
    }

    fn pop_frame(&mut self) -> Result<Option<Frame>> {
        let Some((head, rest)) = self.read.split_first_chunk::<9>() else {
            return Ok(None);
        };
        let [high, middle, low, kind, flags, ..] = *head;
        let length = u32::from_be_bytes([0, high, middle, low]) as usize;
        if length > LARGEST_FRAME {
            bail!("the server sent a frame of {length} bytes");
        }
        let Some(payload) = rest.get(..length) else {
            return Ok(None);
        };
        let frame = Frame {
            kind,
            flags,
            payload: payload.to_vec(),
        };
        self.read.drain(..head.len() + length);
        if self.read.is_empty() {
            self.read = Vec::new();
        }
        Ok(Some(frame))
    }

    fn pop_message<M: Message + Default>(&mut self) -> Result<Option<M>> {
        let Some((head, rest)) = self.message.split_first_chunk::<5>() else {
            return Ok(None);
        };
        let [compressed, length @ ..] = *head;
        let length = usize::try_from(u32::from_be_bytes(length))?;
        let Some(message) = rest.get(..length) else {
            return Ok(None);
        };
        if compressed != 0 {
            bail!("the server sent a compressed message");
        }
        let message = M::decode(message).context("the message cannot be decoded")?;
        self.message.drain(..head.len() + length);
        if self.message.is_empty() {
            self.message = Vec::new();
        }
        Ok(Some(message))
    }
}

/// Frames of a server that accepts the stream without sending a message.
///
/// # Errors
/// None in practice: the frames are short.
pub(super) fn acceptance() -> Result<Vec<u8>> {
    /// `:status: 200` in HPACK's static table.
    const OK: u8 = 0x88;
    let mut frames = Vec::new();
    push_frame(&mut frames, SETTINGS, 0, 0, &[])?;
    push_frame(&mut frames, HEADERS, END_HEADERS, STREAM, &[OK])?;
    Ok(frames)
}

#[derive(Debug)]
struct Frame {
    kind: u8,
    flags: u8,
    payload: Vec<u8>,
}

fn push_frame(bytes: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Result<()> {
    let [_, length @ ..] = u32::try_from(payload.len())?.to_be_bytes();
    bytes.extend(length);
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    Ok(())
}

/// A string in HPACK without Huffman coding (RFC 7541, section 5).
fn push_text(bytes: &mut Vec<u8>, text: &str) {
    let mut length = text.len();
    if length < 127 {
        bytes.push(low_byte(length));
    } else {
        bytes.push(127);
        length -= 127;
        while length >= 128 {
            bytes.push(low_byte(length % 128) | 128);
            length /= 128;
        }
        bytes.push(low_byte(length));
    }
    bytes.extend(text.as_bytes());
}

fn low_byte(number: usize) -> u8 {
    let [low, ..] = number.to_le_bytes();
    low
}

#[cfg(test)]
mod tests {
    use headroom_proto::v1alpha1::Ack;
    use tokio::io::duplex;

    use super::*;

    #[test]
    fn string_lengths_are_encoded_as_in_hpack() {
        let head = |length: usize| {
            let mut bytes = Vec::new();
            push_text(&mut bytes, &"x".repeat(length));
            bytes.truncate(bytes.len() - length);
            bytes
        };
        assert_eq!((head(3), head(126)), (vec![3], vec![126]));
        assert_eq!((head(127), head(254)), (vec![127, 0], vec![127, 127]));
        assert_eq!(head(127 + 1337), vec![127, 0b1011_1001, 10]);
    }

    #[tokio::test]
    async fn split_messages_are_decoded_and_pings_are_answered() {
        let (near, mut far) = duplex(1 << 16);
        let mut stream = BufferedStream::open(near, "/a/B", "t").await.unwrap();
        let ack = Ack {
            seq: 7,
            verdict: 1,
            reason: "because".to_owned(),
        };
        let mut message = vec![0];
        message.extend(u32::try_from(ack.encoded_len()).unwrap().to_be_bytes());
        message.extend(ack.encode_to_vec());
        let (first, second) = message.split_at(8);
        let mut sent = acceptance().unwrap();
        push_frame(&mut sent, DATA, 0, STREAM, first).unwrap();
        push_frame(&mut sent, PING, 0, 0, b"12345678").unwrap();
        push_frame(&mut sent, DATA, 0, STREAM, second).unwrap();
        push_frame(&mut sent, HEADERS, END_HEADERS | END_STREAM, STREAM, &[]).unwrap();
        let server = async {
            for byte in sent {
                far.write_all(&[byte]).await.unwrap();
            }
            let mut received = Vec::new();
            while !received.ends_with(b"12345678") {
                far.read_buf(&mut received).await.unwrap();
            }
            received
        };
        let client = async {
            assert_eq!(stream.receive::<Ack>().await.unwrap(), Event::Opened);
            assert_eq!(stream.receive::<Ack>().await.unwrap(), Event::Message(ack));
            stream.receive::<Ack>().await.unwrap_err();
        };
        let (received, ()) = tokio::join!(server, client);
        assert!(received.starts_with(PREFACE));
    }
}
