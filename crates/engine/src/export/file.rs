//! The file of an export. The first line identifies the format; the last line counts the lines of
//! each kind.

use std::{
    fmt,
    io::{self, BufRead, Write},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{super::redis::is_store_id, counts::Counts, line::Line};

/// Version of the format. An import rejects every other version.
const VERSION: u32 = 1;

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct First {
    kind: String,
    version: u32,
    /// Version of the `tollgate` that wrote the file.
    tollgate: String,
    /// Source engine: `embedded` or `redis`.
    source: String,
    /// Time of the export on the clock of the source, µs.
    time: u64,
    /// The id of the exported store; absent for a data directory, and in exports from versions
    /// without ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    store_id: Option<String>,
}

const FIRST: &str = "archive";

/// Why a file cannot be imported.
#[derive(Debug)]
pub enum Unfit {
    /// The file cannot be read.
    Unread(io::Error),
    /// The file is not an export, is cut off, or has a wrong line. The text names the line and the
    /// remedy.
    Wrong(String),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::Unread(error) => error.fmt(f),
            Unfit::Wrong(why) => f.write_str(why),
        }
    }
}

/// Writes an export.
#[expect(missing_debug_implementations, reason = "a file")]
pub struct Writer<W> {
    to: W,
    counts: Counts,
}

impl<W: Write> Writer<W> {
    /// Writes the first line. `time` is the time of the source, µs; `store_id` its id, if it has one.
    pub fn begin(
        mut to: W,
        source: &str,
        time: u64,
        store_id: Option<String>,
    ) -> io::Result<Writer<W>> {
        let (kind, tollgate) = (FIRST.to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        let source = source.to_owned();
        write_line(&mut to, &First { kind, version: VERSION, tollgate, source, time, store_id })?;
        Ok(Writer { to, counts: Counts::default() })
    }

    /// Appends a line.
    pub fn write(&mut self, line: &Line) -> io::Result<()> {
        self.counts.add(line.kind());
        let mut value = serde_json::to_value(line)?;
        strip(&mut value);
        write_line(&mut self.to, &value)
    }

    /// Returns the number of lines written so far.
    pub fn lines(&self) -> u64 {
        self.counts.lines
    }

    /// Writes the last line and flushes. Without that line, every import rejects the file.
    pub fn end(mut self) -> io::Result<(W, Counts)> {
        let mut value = serde_json::to_value(Line::end(self.counts.clone()))?;
        strip(&mut value);
        write_line(&mut self.to, &value)?;
        self.to.flush()?;
        Ok((self.to, self.counts))
    }
}

/// Removes fields that are unset or empty. The types cannot omit them during serialization, because
/// they are also stored in a data directory, where every field has its place.
fn strip(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(strip);
            fields.retain(|_, value| match value {
                Value::Null => false,
                Value::String(text) => !text.is_empty(),
                Value::Array(items) => !items.is_empty(),
                _ => true,
            });
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

fn write_line(to: &mut impl Write, line: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *to, line)?;
    to.write_all(b"\n")
}

/// Reads an export. Fails if the file is incomplete.
#[expect(missing_debug_implementations, reason = "a file")]
pub struct Reader<R> {
    from: R,
    buffer: Vec<u8>,
    number: u64,
    counts: Counts,
    first: First,
}

impl<R: BufRead> Reader<R> {
    /// Reads the first line. Fails if the file is not an export or has another version.
    pub fn open(from: R) -> Result<Reader<R>, Unfit> {
        let first = First {
            kind: String::new(),
            version: 0,
            tollgate: String::new(),
            source: String::new(),
            time: 0,
            store_id: None,
        };
        let (buffer, counts) = (Vec::new(), Counts::default());
        let mut reader = Reader { from, buffer, number: 0, counts, first };
        let none = "not an export: the first line is not one that `tollgate export` writes";
        if !reader.advance()? {
            return Err(Unfit::Wrong(format!("{none}; the file is empty")));
        }
        // A newer version may have other fields, so only the version is parsed first.
        #[derive(Deserialize)]
        struct Version {
            kind: String,
            version: u32,
        }
        let version = serde_json::from_slice::<Version>(&reader.buffer);
        match version {
            Ok(Version { kind, version }) if kind == FIRST && version != VERSION => {
                return Err(Unfit::Wrong(format!(
                    "the file has version {version}, and this tollgate reads version {VERSION}: \
                     import it with the tollgate that wrote it, or a newer one"
                )));
            }
            Ok(Version { kind, .. }) if kind == FIRST => {}
            Ok(_) | Err(_) => return Err(Unfit::Wrong(none.to_owned())),
        }
        reader.first = serde_json::from_slice(&reader.buffer)
            .map_err(|error| Unfit::Wrong(format!("line 1: {error}")))?;
        if reader.store_id().is_some_and(|id| !is_store_id(id)) {
            let why = "line 1: store_id: expected 1 to 64 hexadecimal digits";
            return Err(Unfit::Wrong(why.to_owned()));
        }
        Ok(reader)
    }

    /// Returns the time of the export on the clock of the source, µs.
    pub fn time(&self) -> u64 {
        self.first.time
    }

    /// Returns the id of the exported store, if it has one.
    pub fn store_id(&self) -> Option<&str> {
        self.first.store_id.as_deref()
    }

    /// Returns the next line, or `None` after a valid last line.
    pub fn next_line(&mut self) -> Result<Option<Line>, Unfit> {
        if !self.advance()? {
            return Err(Unfit::Wrong(format!(
                "the file is cut off after line {}: the last line, of kind `end`, is missing; \
                 export it again",
                self.number
            )));
        }
        let number = self.number;
        let wrong = |why: String| Unfit::Wrong(format!("line {number}: {why}"));
        let line: Line = serde_json::from_slice(&self.buffer).map_err(|error| {
            let column = error.column();
            let text = error.to_string();
            let text = text.split(" at line ").next().unwrap_or_default();
            wrong(format!("column {column}: {text}"))
        })?;
        line.check().map_err(wrong)?;
        if let Some(counts) = line.counts() {
            self.finish(counts)?;
            return Ok(None);
        }
        self.counts.add(line.kind());
        Ok(Some(line))
    }

    /// Returns the number of lines of each kind read so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Compares the counts in the last line with the lines read, and checks that nothing follows
    /// it.
    fn finish(&mut self, said: &Counts) -> Result<(), Unfit> {
        let number = self.number;
        if *said != self.counts {
            return Err(Unfit::Wrong(format!(
                "line {number}: the counts are wrong: expected {said}, found {}; lines were lost \
                 or added: export it again",
                self.counts
            )));
        }
        if self.advance()? {
            return Err(Unfit::Wrong(format!(
                "line {}: data after the last line, of kind `end`: the file contains two exports \
                 or was modified",
                self.number
            )));
        }
        Ok(())
    }

    /// Reads a line into the buffer. Returns false at the end of the file. A line without a newline
    /// is cut off and counts as the end.
    fn advance(&mut self) -> Result<bool, Unfit> {
        self.buffer.clear();
        let read = self.from.read_until(b'\n', &mut self.buffer).map_err(Unfit::Unread)?;
        if read == 0 || self.buffer.last() != Some(&b'\n') {
            return Ok(false);
        }
        self.number += 1;
        Ok(true)
    }
}
