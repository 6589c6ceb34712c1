//! What holds after any history.
