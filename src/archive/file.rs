//! The file: the first line says what it is, the last one how many there were of each kind.

use std::{
    collections::BTreeMap,
    fmt,
    io::{self, BufRead, Write},
};

use serde::{Deserialize, Serialize};

use super::{Line, VERSION};

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct First {
    kind: String,
    version: u32,
    /// Who wrote it.
    tollgate: String,
    /// Where from: `embedded` or `redis`.
    source: String,
    /// When, on the clock of the engine that it is from.
    time: u64,
}

const FIRST: &str = "archive";

/// How many lines there are, but the first and the last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// In all.
    pub lines: u64,
    /// By kind.
    pub counts: BTreeMap<String, u64>,
}

impl Counts {
    /// Counts a line of a kind.
    pub(crate) fn add(&mut self, kind: &str) {
        self.lines += 1;
        match self.counts.get_mut(kind) {
            Some(count) => *count += 1,
            None => drop(self.counts.insert(kind.to_owned(), 1)),
        }
    }

    /// How many of a kind.
    pub(crate) fn of(&self, kind: &str) -> u64 {
        self.counts.get(kind).copied().unwrap_or(0)
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.counts.is_empty() {
            return f.write_str("nothing");
        }
        for (index, (kind, count)) in self.counts.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{kind} {}", crate::text::grouped(*count))?;
        }
        Ok(())
    }
}

/// Why an archive cannot be taken in.
#[derive(Debug)]
pub enum Unfit {
    /// It cannot be read.
    Unread(io::Error),
    /// It is none, or is cut, or wrong; says where and what to do.
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

/// Writes an archive.
pub(crate) struct Writer<W> {
    to: W,
    counts: Counts,
}

impl<W: Write> Writer<W> {
    pub(crate) fn begin(mut to: W, source: &str, time: u64) -> io::Result<Writer<W>> {
        let (kind, tollgate) = (FIRST.to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        let source = source.to_owned();
        write_line(&mut to, &First { kind, version: VERSION, tollgate, source, time })?;
        Ok(Writer { to, counts: Counts::default() })
    }

    pub(crate) fn write(&mut self, line: &Line) -> io::Result<()> {
        self.counts.add(line.kind());
        write_line(&mut self.to, line)
    }

    /// How many lines are written.
    pub(crate) fn lines(&self) -> u64 {
        self.counts.lines
    }

    pub(crate) fn end(mut self) -> io::Result<(W, Counts)> {
        write_line(&mut self.to, &Line::End(self.counts.clone()))?;
        self.to.flush()?;
        Ok((self.to, self.counts))
    }
}

fn write_line(to: &mut impl Write, line: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *to, line)?;
    to.write_all(b"\n")
}

/// Reads an archive, and refuses one that is not whole.
pub(crate) struct Reader<R> {
    from: R,
    buffer: Vec<u8>,
    number: u64,
    counts: Counts,
    first: First,
}

impl<R: BufRead> Reader<R> {
    pub(crate) fn open(from: R) -> Result<Reader<R>, Unfit> {
        let first = First {
            kind: String::new(),
            version: 0,
            tollgate: String::new(),
            source: String::new(),
            time: 0,
        };
        let (buffer, counts) = (Vec::new(), Counts::default());
        let mut reader = Reader { from, buffer, number: 0, counts, first };
        let none = "it is no archive: the first line is none that `tollgate export` writes";
        if !reader.advance()? {
            return Err(Unfit::Wrong(format!("{none}; it is empty")));
        }
        // A newer form may have other fields: its version is what counts.
        #[derive(Deserialize)]
        struct Version {
            kind: String,
            version: u32,
        }
        let version = serde_json::from_slice::<Version>(&reader.buffer);
        match version {
            Ok(Version { kind, version }) if kind == FIRST && version != VERSION => {
                return Err(Unfit::Wrong(format!(
                    "it is of version {version}, and this tollgate reads {VERSION}: import it \
                     with the tollgate that wrote it, or a newer one"
                )));
            }
            Ok(Version { kind, .. }) if kind == FIRST => {}
            Ok(_) | Err(_) => return Err(Unfit::Wrong(none.to_owned())),
        }
        reader.first = serde_json::from_slice(&reader.buffer)
            .map_err(|error| Unfit::Wrong(format!("line 1: {error}")))?;
        Ok(reader)
    }

    /// When it was written, on the clock of the engine that it is from.
    pub(crate) fn time(&self) -> u64 {
        self.first.time
    }

    /// The next line; none once it has ended as it should.
    pub(crate) fn next(&mut self) -> Result<Option<Line>, Unfit> {
        if !self.advance()? {
            return Err(Unfit::Wrong(format!(
                "it is cut off after line {}: the last line, of kind `end`, is missing; export it \
                 again",
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
        if let Line::End(counts) = line {
            self.finish(&counts)?;
            return Ok(None);
        }
        self.counts.add(line.kind());
        Ok(Some(line))
    }

    /// How many lines of each kind were read.
    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    fn finish(&mut self, said: &Counts) -> Result<(), Unfit> {
        let number = self.number;
        if *said != self.counts {
            return Err(Unfit::Wrong(format!(
                "line {number}: the counts are wrong: it says {said}, and there are {}; lines were \
                 lost, or added: export it again",
                self.counts
            )));
        }
        if self.advance()? {
            return Err(Unfit::Wrong(format!(
                "line {}: something follows on the last line, of kind `end`: these are two \
                 archives, or one that was tampered with",
                self.number
            )));
        }
        Ok(())
    }

    /// Reads a line; whether there is one. One without its end is cut, and is none.
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
