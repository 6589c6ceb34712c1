//! Protobuf on the wire: prost's codec, but a message that is not protobuf is
//! the caller's fault (INVALID_ARGUMENT), not ours (INTERNAL).

use std::marker::PhantomData;

use bytes::Buf;
use prost::Message;
use tonic::{
    Status,
    codec::{BufferSettings, DecodeBuf, Decoder},
};
use tonic_prost::{ProstCodec, ProstEncoder};

use super::elements::{self, Request};

/// What a message is given room for at first. A request lives as long as its call,
/// which may wait for a minute; tonic's default would keep 8 KiB of it.
const ROOM: usize = 512;
/// How many bytes of an answer are gathered before they are sent; tonic's default.
const SEND_AT: usize = 32 * 1024;

/// The codec of every service.
#[derive(Debug)]
pub(crate) struct Codec<T, U>(ProstCodec<T, U>);

/// Decodes requests.
#[derive(Debug)]
pub(crate) struct RequestDecoder<U>(PhantomData<U>);

/// Decodes a request whose repeated fields keep to their bounds.
pub(crate) fn decode<U: Request>(mut bytes: impl Buf) -> Result<U, Status> {
    let length = bytes.remaining();
    let decoded = if elements::are_counted::<U>(length) {
        // A slice of what was read, not a copy.
        let message = bytes.copy_to_bytes(length);
        elements::count::<U>(&message)?;
        U::decode(message)
    } else {
        U::decode(bytes)
    };
    decoded.map_err(|error| Status::invalid_argument(error.to_string()))
}

impl<T, U> Default for Codec<T, U>
where
    ProstCodec<T, U>: Default,
{
    fn default() -> Codec<T, U> {
        Codec(ProstCodec::default())
    }
}

impl<T, U> tonic::codec::Codec for Codec<T, U>
where
    T: Message + Send + 'static,
    U: Request + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = RequestDecoder<U>;

    fn encoder(&mut self) -> ProstEncoder<T> {
        ProstEncoder::new(BufferSettings::new(ROOM, SEND_AT))
    }

    fn decoder(&mut self) -> RequestDecoder<U> {
        RequestDecoder(PhantomData)
    }
}

impl<U: Request> Decoder for RequestDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, source: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        decode(source).map(Some)
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(ROOM, SEND_AT)
    }
}
