//! The number of the current worker thread.
//!
//! Each worker thread of the server has its own runtime and its own pipelines to each Redis node.
//! `redis::node` selects the pipelines by this number. The numbers are set once, by
//! the transport.

use std::cell::Cell;

thread_local! {
    static NUMBER: Cell<usize> = const { Cell::new(0) };
}

/// Marks this thread as the worker with this number, from 1.
pub fn enter(number: usize) {
    NUMBER.set(number);
}

/// Returns the number of this thread; 0 if it is not a worker, such as the main thread.
pub fn number() -> usize {
    NUMBER.get()
}
