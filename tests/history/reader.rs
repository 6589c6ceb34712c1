//! A recorded stream of events.

use std::io::{self, BufReader, Read};

use super::{
    checker::{Checker, Demands, Verdict},
    event::Message,
};

/// Checks a stream of JSON objects, one a line or over several lines.
pub fn check(record: impl Read, demands: Demands) -> io::Result<Verdict> {
    let mut checker = Checker::new(demands);
    let messages = serde_json::Deserializer::from_reader(BufReader::new(record));
    for message in messages.into_iter::<Message>() {
        match message {
            Ok(message) => checker.see(&message.event),
            // A recording that was stopped ends within an object.
            Err(error) if error.is_eof() => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(checker.finish())
}
