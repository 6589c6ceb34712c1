//! Calls that are encoded once: only the number in their names differs from one to the next.

use std::fmt::{self, Write};

use bytes::{Bytes, BytesMut};
use prost::Message;

/// What stands in a message for the number of a call.
pub(crate) const NUMBER: &str = "############";
/// A message's length and that it is not compressed.
const PREFIX: usize = 5;

/// One unary gRPC call.
pub(crate) struct Call {
    /// `/package.Service/Method`
    pub(crate) path: &'static str,
    /// The message with its prefix.
    body: Vec<u8>,
    /// Where the number goes.
    places: Vec<usize>,
    /// Whether a reply is the one that the load is to have; what else comes is counted.
    accepts: fn(&[u8]) -> bool,
}

impl Call {
    /// A call of `path`; wherever `message` says [`NUMBER`] the number of the call goes.
    pub(crate) fn new(
        path: &'static str,
        message: &impl Message,
        accepts: fn(&[u8]) -> bool,
    ) -> Call {
        let mut body = vec![0; PREFIX];
        message.encode(&mut body).expect("a vector grows");
        let length = (body.len() - PREFIX) as u32;
        body[1..PREFIX].copy_from_slice(&length.to_be_bytes());
        let windows = body.windows(NUMBER.len()).enumerate();
        let places = windows.filter(|(_, window)| *window == NUMBER.as_bytes());
        let places = places.map(|(at, _)| at).collect();
        Call { path, body, places, accepts }
    }

    /// The same call, of which another reply is expected.
    pub(crate) fn expecting(self, accepts: fn(&[u8]) -> bool) -> Call {
        Call { accepts, ..self }
    }

    /// How long its message is, in bytes.
    pub(crate) fn length(&self) -> usize {
        self.body.len() - PREFIX
    }

    /// What is sent.
    pub(crate) fn body(&self, number: u64) -> Bytes {
        let mut body = BytesMut::from(self.body.as_slice());
        for at in &self.places {
            write_digits(&mut body[*at..*at + NUMBER.len()], number);
        }
        body.freeze()
    }

    /// Whether what was received is the answer that the load is to have.
    pub(crate) fn accepts(&self, received: &[u8]) -> bool {
        received.get(PREFIX..).is_some_and(self.accepts)
    }
}

fn write_digits(place: &mut [u8], mut number: u64) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// Accepts a reply that begins with its field 1, an enum or a bool, and this value.
pub(crate) fn first_is<const VALUE: u8>(message: &[u8]) -> bool {
    message.starts_with(&[1 << 3, VALUE])
}

/// A reply that was not accepted, in hexadecimal digits: short enough to read.
pub(crate) fn hexadecimal(received: &[u8]) -> String {
    received.iter().take(48).fold(String::new(), |mut text, byte| {
        let _: fmt::Result = write!(text, "{byte:02x}");
        text
    })
}

/// What every caller of a load does, again and again.
pub(crate) struct Load {
    /// Calls made one after the other, all of the same number.
    pub(crate) calls: Vec<Call>,
    /// Numbers are 0 to this, exclusive, in turn.
    pub(crate) numbers: u64,
}

impl Load {
    /// A load of one call.
    pub(crate) fn of(call: Call, numbers: u64) -> Load {
        Load { calls: vec![call], numbers }
    }
}
