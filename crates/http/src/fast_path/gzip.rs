//! Messages that are compressed with gzip.
//!
//! The last four bytes of a gzip member are the length of its content. The whole member is received
//! first. Then permits for that length are reserved, and nothing beyond it is inflated. If a
//! message were inflated as its data arrives, permits would be reserved in steps, and calls that
//! each have some of their permits could wait for each other forever.
//!
//! Inflating 4 MiB can take 20 ms. So a thread inflates one long member at a time, in pieces, and
//! serves other calls after each piece.

use std::{
    io::{Read, Take},
    mem,
    sync::Arc,
};

use bytes::BytesMut;
use flate2::bufread::GzDecoder;
use hyper::body::Bytes;
use tokio::{sync::Semaphore, task::yield_now};
use tonic::Status;

use super::{FRAME_BYTES_MAX, PREFIX, messages::too_large};
use crate::rejections::Rejections;

/// Maximum compression ratio of gzip: two bits represent up to 258 bytes.
const RATIO_MAX: usize = 258 * 8 / 2;
/// Bytes of content that are inflated without a pause, in at most 0.1 ms.
const PIECE: u32 = FRAME_BYTES_MAX;

thread_local! {
    /// The right to inflate content that is longer than one piece.
    static INFLATING: Arc<Semaphore> = Arc::new(Semaphore::new(1));
}

/// The data of a request whose messages may be compressed.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    data: BytesMut,
    /// Whether permits for the content of the first message are reserved.
    is_reserved: bool,
}

/// What to do next with gathered data.
#[derive(Debug)]
pub(super) enum Next {
    /// The message is not complete.
    Read,
    /// Reserve permits for this number of bytes of content, then ask again.
    Reserve(usize),
    /// A message with its prefix, uncompressed.
    Message(Bytes),
    /// Pass the member and the length of its content to [`inflate`].
    Inflate(Bytes, u32),
}

impl Gathered {
    pub(super) fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// Appends received data.
    pub(super) fn push(&mut self, data: &[u8]) {
        self.data.extend_from_slice(data);
    }

    /// Removes and returns all received data.
    pub(super) fn drain(&mut self) -> Bytes {
        self.data.split().freeze()
    }

    /// Removes and returns the next message, of at most `longest` bytes.
    pub(super) fn next(
        &mut self,
        longest: usize,
        rejections: &'static Rejections,
    ) -> Result<Next, Status> {
        let Some([flag, length @ ..]) = self.data.first_chunk::<PREFIX>() else {
            return Ok(Next::Read);
        };
        let (is_compressed, length) = (*flag == 1, u32::from_be_bytes(*length) as usize);
        let end = PREFIX + length;
        if self.data.len() < end {
            return Ok(Next::Read);
        }
        if !is_compressed {
            return Ok(Next::Message(self.data.split_to(end).freeze()));
        }
        let content =
            content_length(&self.data[PREFIX..end]).ok_or_else(|| rejections.not_gzip())?;
        if content as usize > longest {
            return Err(too_large(rejections));
        }
        if !mem::replace(&mut self.is_reserved, true) {
            return Ok(Next::Reserve(content as usize));
        }
        self.is_reserved = false;
        let member = self.data.split_to(end).freeze().slice(PREFIX..);
        if content > PIECE {
            return Ok(Next::Inflate(member, content));
        }
        let mut content = Content::new(&member, content, rejections);
        content.inflate(u64::MAX)?;
        content.end().map(Next::Message)
    }
}

/// Returns the length of a member's content as stated at its end; `None` if content of that length
/// cannot be compressed that far.
fn content_length(member: &[u8]) -> Option<u32> {
    let length = member.last_chunk().map(|length| u32::from_le_bytes(*length));
    length.filter(|length| *length as usize / RATIO_MAX <= member.len())
}

/// Inflates a member in pieces, once no other member is being inflated on this thread. Returns and
/// fails as [`Content::end`] does.
///
/// The caller must poll it whenever it is woken, because other calls may be waiting for it.
pub(super) async fn inflate(
    member: Bytes,
    length: u32,
    rejections: &'static Rejections,
) -> Result<Bytes, Status> {
    // The semaphore is never closed.
    let _inflating = INFLATING.with(Arc::clone).acquire_owned().await;
    let mut content = Content::new(&member, length, rejections);
    while content.inflate(PIECE.into())? {
        // Also lets the thread read from its connections.
        yield_now().await;
    }
    content.end()
}

/// The content of a member, which has been inflated in part.
struct Content<'a> {
    /// Ends one byte after the stated length, so that longer content is detected by that byte.
    rest: Take<GzDecoder<&'a [u8]>>,
    length: usize,
    /// An uncompressed message with its prefix.
    message: Vec<u8>,
    rejections: &'static Rejections,
}

impl Content<'_> {
    fn new<'a>(member: &'a [u8], length: u32, rejections: &'static Rejections) -> Content<'a> {
        let mut message = Vec::with_capacity(PREFIX + length as usize);
        message.push(0);
        message.extend_from_slice(&length.to_be_bytes());
        let rest = GzDecoder::new(member).take(u64::from(length) + 1);
        Content { rest, length: length as usize, message, rejections }
    }

    /// Inflates up to `bytes` further bytes. Returns whether more may follow.
    fn inflate(&mut self, bytes: u64) -> Result<bool, Status> {
        let read = (&mut self.rest).take(bytes).read_to_end(&mut self.message);
        read.map(|read| read as u64 == bytes).map_err(|_| self.rejections.not_gzip())
    }

    /// Returns the message. Fails if the content has another length, or if more data follows the
    /// member.
    fn end(self) -> Result<Bytes, Status> {
        let rest = self.rest.into_inner().into_inner();
        if rest.is_empty() && self.message.len() == PREFIX + self.length {
            Ok(self.message.into())
        } else {
            Err(self.rejections.not_gzip())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        pin::Pin,
        task::{Context, Poll, Waker},
    };

    use flate2::{Compression, write::GzEncoder};

    use super::*;
    use crate::rejections::SAMPLE;

    type Inflating = Pin<Box<dyn Future<Output = Result<Bytes, Status>>>>;

    #[test]
    fn long_contents_of_a_thread_are_inflated_one_by_one_and_in_pieces() {
        let mut cx = Context::from_waker(Waker::noop());
        for length in [PIECE + 1, 2 * PIECE, 2 * PIECE + 1] {
            let content = vec![7; length as usize];
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(&content).unwrap();
            let member = Bytes::from(encoder.finish().unwrap());
            let inflate =
                || -> Inflating { Box::pin(super::inflate(member.clone(), length, &SAMPLE)) };
            let (mut first, mut cancelled, mut last) = (inflate(), inflate(), inflate());
            let mut polled = |inflating: &mut Inflating| match inflating.as_mut().poll(&mut cx) {
                Poll::Ready(message) => Some(message.unwrap()),
                Poll::Pending => None,
            };
            for _ in 0..length / PIECE {
                assert!(polled(&mut first).is_none());
                assert!(polled(&mut cancelled).is_none());
                assert!(polled(&mut last).is_none());
            }
            let expected = [&[0][..], &length.to_be_bytes(), &content].concat();
            assert_eq!(polled(&mut first).unwrap(), expected);
            drop((first, cancelled));
            for _ in 0..length / PIECE {
                assert!(polled(&mut last).is_none());
            }
            assert_eq!(polled(&mut last).unwrap(), expected);
        }
    }
}
