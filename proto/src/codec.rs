//! The codec of all gRPC services: Prost's encoding, in buffers that begin small.
//!
//! A replica holds a stream for each node of a fleet for days, and each stream keeps a buffer for either direction. By
//! default gRPC takes 8 KiB for each buffer, of which an acknowledgement fills 20 bytes and a report some hundred. A
//! larger message makes its buffer grow.

use std::marker::PhantomData;

use prost::Message;
use tonic::codec::BufferSettings;
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

/// What a buffer for sending begins with, in bytes, and grows by at least.
const SEND_BUFFER: usize = 512;
/// The same of a buffer for receiving. It makes room for a message that has arrived already, and doubles: with this it never grows for
/// a report of some 35 pods.
const RECEIVE_BUFFER: usize = 4 << 10;
/// From how much on several messages are sent without waiting for more; as gRPC has it by default.
const SENT_FROM: usize = 32 << 10;

/// The codec of all our services.
#[derive(Debug)]
pub(crate) struct Codec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for Codec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> tonic::codec::Codec for Codec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Decode = U;
    type Decoder = ProstDecoder<U>;
    type Encode = T;
    type Encoder = ProstEncoder<T>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::raw_encoder(BufferSettings::new(SEND_BUFFER, SENT_FROM))
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<T, U>::raw_decoder(BufferSettings::new(RECEIVE_BUFFER, SENT_FROM))
    }
}
