//! The part of the fuzz targets that needs the parsers of this folder.

use redis::{Value, parse_redis_value};

use super::{evaluate, map};
use tollgate_core::{Reply, script};

/// Parses bytes as a value of the Redis protocol, a map of slots, and the replies of a batch.
/// Returns the replies.
pub(in super::super) fn replies(input: &[u8]) -> Option<Vec<Reply>> {
    let value = match parse_redis_value(input) {
        Ok(value) => value,
        Err(error) => {
            drop(evaluate::error(&error));
            return None;
        }
    };
    drop(map::parse(value.clone(), "127.0.0.1"));
    let count = match &value {
        Value::Array(batch) => batch.len().saturating_sub(1),
        _ => 1,
    };
    drop(evaluate::replies(&script::rate::CHECK_WINDOW, value.clone(), count));
    let replies = evaluate::replies(&script::rate::CHECK, value, count).ok()?;
    Some(replies.into_iter().filter_map(Result::ok).collect())
}
