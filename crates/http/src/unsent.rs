//! Records whether a stream is waiting for its caller to read a chunk of the answer.
//!
//! hyper polls the body of an answer within the task of its stream. The body records here that it has
//! handed a chunk to hyper, and the task ([`crate::streams`]) reads the record after each poll. All
//! streams of a connection are on one thread, so the record is a thread-local, which costs a call
//! neither an allocation nor a lock.

use std::cell::Cell;

thread_local! {
    /// The number of the chunk that the current stream has handed to hyper and that is not sent
    /// yet; 0 for none.
    static UNSENT: Cell<u64> = const { Cell::new(0) };
    /// The number of the last chunk.
    static LAST: Cell<u64> = const { Cell::new(0) };
}

/// Records that the current stream has handed a chunk of its answer to hyper.
pub(crate) fn record_chunk() {
    let number = LAST.get() + 1;
    LAST.set(number);
    UNSENT.set(number);
}

/// Records that all chunks of the current stream are sent.
pub(crate) fn record_all_sent() {
    UNSENT.set(0);
}

/// Polls a stream. `unsent` is the number of its unsent chunk before the poll, and the returned
/// number is the one after it; 0 for none.
pub(crate) fn poll_stream<T>(unsent: u64, poll: impl FnOnce() -> T) -> (T, u64) {
    UNSENT.set(unsent);
    let polled = poll();
    (polled, UNSENT.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unsent_chunk_is_known_to_its_stream_alone() {
        let (_, first) = poll_stream(0, record_chunk);
        let (_, second) = poll_stream(0, || ());
        assert!(first > 0 && second == 0);
        assert_eq!(poll_stream(first, || ()), ((), first), "it is still waiting");
        assert_ne!(poll_stream(first, record_chunk), ((), first), "the next chunk");
        assert_eq!(poll_stream(first, record_all_sent), ((), 0));
    }
}
