//! The protobuf codec. Like prost's codec, except that a message that is not protobuf is the
//! caller's error (INVALID_ARGUMENT), not the server's (INTERNAL).

use std::marker::PhantomData;

use bytes::Buf;
use prost::Message;
use tonic::{
    Status,
    codec::{BufferSettings, DecodeBuf, Decoder},
};
use tonic_prost::{ProstCodec, ProstEncoder};

use super::elements::{self, Request};

/// Initial size of the message buffer, bytes. A request lives as long as its call, which may wait
/// for a minute; tonic's default would keep 8 KiB.
const ROOM: usize = 512;
/// Number of answer bytes that are gathered before they are sent; tonic's default.
const SEND_AT: usize = 32 * 1024;

/// The codec of all services.
#[derive(Debug)]
pub(crate) struct Codec<T, U>(ProstCodec<T, U>);

/// The decoder of requests.
#[derive(Debug)]
pub(crate) struct RequestDecoder<U>(PhantomData<U>);

/// Decodes a request. Fails with INVALID_ARGUMENT if it is malformed or a repeated field has too
/// many elements.
pub(crate) fn decode<U: Request>(mut bytes: impl Buf) -> Result<U, Status> {
    let length = bytes.remaining();
    let decoded = if elements::are_counted::<U>(length) {
        // A slice of the read buffer, not a copy.
        let message = bytes.copy_to_bytes(length);
        let mut request = U::default();
        request.reserve(elements::count::<U>(&message)?);
        request.merge(message).map(|()| request)
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
