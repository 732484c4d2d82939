//! [`Codec`] of all gRPC services: Prost's encoding with small initial buffers.
//!
//! A replica keeps a stream per node of a fleet open for days, and each stream keeps a buffer per direction. gRPC's
//! default is 8 KiB per buffer, of which an acknowledgement needs 20 bytes and a report a few hundred. The buffer
//! grows for larger messages.

use std::marker::PhantomData;

use prost::Message;
use tonic::codec::BufferSettings;
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

/// Initial size and least growth of a send buffer, in bytes.
const SEND_BUFFER: usize = 512;
/// Initial size and least growth of a receive buffer, in bytes. The buffer doubles when a message that has arrived
/// does not fit: with this size it never grows for a report of about 35 pods.
const RECEIVE_BUFFER: usize = 4 << 10;
/// Buffered bytes from which messages are sent without waiting for more; gRPC's default.
const SENT_FROM: usize = 32 << 10;

/// Codec of all our services.
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
