//! Runs scripts by their SHA-1 and reads what comes back.

use std::collections::HashMap;

use redis::{Cmd, Pipeline, RedisError, RedisResult, ServerErrorKind, Value};

use super::connection::Connection;
use crate::{
    decision::{Call, Item, Reply},
    error::Error,
    script::{self, Script},
};

/// The scripts as this engine sends them.
#[derive(Debug)]
pub(super) struct Scripts {
    prepared: HashMap<&'static str, Prepared>,
}

#[derive(Debug)]
struct Prepared {
    text: String,
    sha1: String,
}

/// A script, and the KEYS and ARGV it runs on.
pub(super) type Run<'a> = (&'static Script, &'a Call<'a>);

impl Scripts {
    pub(super) fn new(clock: Option<&str>) -> Scripts {
        let prepare = |script: &&'static Script| {
            let text = script.text(clock);
            let sha1 = redis::Script::new(&text).get_hash().to_owned();
            (script.name, Prepared { text, sha1 })
        };
        Scripts { prepared: script::ALL.iter().map(prepare).collect() }
    }

    /// Runs a script, and perhaps a second one whose reply is not awaited, in
    /// one round trip; in two when Redis has forgotten the script.
    pub(super) async fn send(
        &self,
        connection: &mut Connection,
        main: Run<'_>,
        beside: Option<Run<'_>>,
    ) -> RedisResult<Value> {
        let result = match beside {
            None => self.evalsha(main).query_async(&mut connection.socket).await,
            Some(beside) => {
                let mut pipeline = Pipeline::with_capacity(2);
                pipeline.add_command(self.evalsha(main));
                pipeline.add_command(self.evalsha(beside));
                first(&mut pipeline, connection, 0).await
            }
        };
        match result {
            Err(error) if error.kind() == ServerErrorKind::NoScript.into() => {}
            result => return result,
        }
        // After a flush, a restart or a failover.
        let mut pipeline = Pipeline::with_capacity(4);
        for run in [Some(main), beside].into_iter().flatten() {
            let mut load = redis::cmd("SCRIPT");
            load.arg("LOAD").arg(&self.prepared[run.0.name].text);
            pipeline.add_command(load);
            pipeline.add_command(self.evalsha(run));
        }
        first(&mut pipeline, connection, 1).await
    }

    fn evalsha(&self, (script, call): Run<'_>) -> Cmd {
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(&self.prepared[script.name].sha1).arg(call.keys());
        for part in call.parts() {
            cmd.arg(part);
        }
        cmd
    }
}

/// Sends a pipeline and returns the reply at `index`.
async fn first(
    pipeline: &mut Pipeline,
    connection: &mut Connection,
    index: usize,
) -> RedisResult<Value> {
    pipeline.ignore_errors();
    let replies: Vec<RedisResult<Value>> = pipeline.query_async(&mut connection.socket).await?;
    replies.into_iter().nth(index).unwrap_or(Ok(Value::Nil))
}

/// What a failed command means to the caller.
pub(super) fn error(error: &RedisError) -> Error {
    match error.code() {
        // Redis refused before it ran anything.
        Some(
            "READONLY" | "LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" | "MOVED" | "ASK"
            | "OOM" | "MISCONF" | "NOREPLICAS" | "BUSY" | "NOAUTH" | "NOPERM" | "WRONGPASS"
            | "NOSCRIPT",
        ) => Error::Unavailable(error.to_string()),
        Some(_) => Error::Corrupt(error.to_string()),
        None if error.is_connection_refusal() => Error::Unavailable(error.to_string()),
        None => Error::DeadlineExceeded,
    }
}

/// The only item's reply of a batch of one.
pub(super) fn reply(value: Value) -> Result<Reply, Error> {
    let unexpected = |what: &dyn std::fmt::Debug| Error::Corrupt(format!("a reply {what:?}"));
    let Value::Array(batch) = value else { return Err(unexpected(&value)) };
    let Some(Value::Array(values)) = batch.into_iter().next() else {
        return Err(unexpected(&"without items"));
    };
    let mut items = Vec::with_capacity(values.len());
    for value in values {
        items.push(match value {
            Value::Int(number) => Item::Number(number),
            Value::BulkString(bytes) => Item::Bytes(bytes),
            other => return Err(unexpected(&other)),
        });
    }
    match items.as_slice() {
        [Item::Number(-1), Item::Bytes(message)] => Err(failed(&String::from_utf8_lossy(message))),
        _ => Ok(Reply::new(items)),
    }
}

/// What an item that failed inside its script means to the caller.
fn failed(message: &str) -> Error {
    const REFUSALS: [&str; 5] = ["READONLY", "OOM", "MISCONF", "NOREPLICAS", "MASTERDOWN"];
    match message.strip_prefix("CORRUPT ") {
        Some(what) => Error::Corrupt(what.to_owned()),
        None if REFUSALS.iter().any(|code| message.contains(code)) => {
            Error::Unavailable(message.to_owned())
        }
        None => Error::Corrupt(message.to_owned()),
    }
}
