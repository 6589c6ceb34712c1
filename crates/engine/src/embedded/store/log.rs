//! The log of a data directory contains changes that have reached the operating system and are not
//! synced yet. A killed process loses none of them.
//!
//! Two files alternate: records are appended to one of them, and the other is emptied once redb has
//! synced all its changes. The log itself is never synced, so a power loss may lose any part of
//! what redb has not synced.
//!
//! # Format
//! A record is a header and a payload, which is a row of changes (`decision/persistence`). Numbers
//! are little-endian.
//!
//! | bytes | field |
//! |---|---|
//! | 4 | [`MAGIC`] |
//! | 8 | the number of the last change before the record |
//! | 8 | the number of its last change |
//! | 8 | the time at which it was written, in µs |
//! | 4 | the length of the payload |
//! | 4 | CRC-32 of the payload |
//! | 4 | CRC-32 of the header up to here |
//!
//! # What startup finds
//! Records follow each other by their numbers, from the last synced change on. A killed process
//! leaves at most one incomplete record, at the end. No answer depends on it, so it is cut off.
//! Anything else is damage, unless the machine has restarted in between: a power loss may leave any
//! record incomplete, so only the records before the first incomplete one count.

use std::{
    fmt,
    fs::File,
    io::{self, Read, Seek},
    os::unix::fs::FileExt,
};

use flate2::Crc;

use super::WriteBatch;
use tollgate_core::{
    record::{Row, decode_changes},
    time::Timestamp,
};

/// The first bytes of a record: the name and the version of the format.
const MAGIC: [u8; 4] = *b"TGL1";
const HEADER: usize = 40;
/// The log switches to the other file when the current one is longer, in bytes.
const FILE_BYTES: u64 = 4 << 20;
/// The buffer that is retained between two records, in bytes.
const KEPT_BYTES: usize = 1 << 20;

/// A file of the log.
pub trait LogFile: fmt::Debug + Send + Sync {
    /// Reads the whole file.
    fn read(&mut self) -> io::Result<Vec<u8>>;
    /// Writes at the end of the file, which is `offset` bytes long. After an error, part of the
    /// bytes may be written.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Truncates the file.
    fn cut(&mut self, length: u64) -> io::Result<()>;
    /// Syncs the file.
    fn sync(&mut self) -> io::Result<()>;
}

impl LogFile for File {
    fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.rewind()?;
        self.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

/// A file in memory, for test disks that need no log.
impl LogFile for Vec<u8> {
    fn read(&mut self) -> io::Result<Vec<u8>> {
        Ok(self.clone())
    }

    fn write(&mut self, _: u64, bytes: &[u8]) -> io::Result<()> {
        self.extend_from_slice(bytes);
        Ok(())
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.truncate(length as usize);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The log, open for appending.
#[derive(Debug)]
pub(in super::super) struct ChangeLog {
    files: [OpenLog; 2],
    /// The index of the file that records are appended to.
    active: usize,
    buffer: Vec<u8>,
}

/// One of the two files.
#[derive(Debug)]
struct OpenLog {
    file: Box<dyn LogFile>,
    length: u64,
    /// The number of the last change in the file.
    last: u64,
    /// Whether a failed write may have left part of a record at the end.
    is_torn: bool,
}

/// The changes of the log that redb does not have.
#[derive(Debug, Default)]
pub(super) struct Replay {
    pub(super) batch: WriteBatch,
    /// The number of the last change.
    pub(super) last: u64,
    /// The time of the last record.
    pub(super) time: Timestamp,
    /// Whether an incomplete record was cut off.
    pub(super) is_cut: bool,
}

impl ChangeLog {
    /// Creates two files in memory, for test disks.
    pub(super) fn in_memory() -> [Box<dyn LogFile>; 2] {
        [Box::new(Vec::<u8>::new()), Box::new(Vec::<u8>::new())]
    }

    pub(super) fn new(files: [Box<dyn LogFile>; 2]) -> ChangeLog {
        let files = files.map(|file| OpenLog { file, length: 0, last: 0, is_torn: false });
        ChangeLog { files, active: 0, buffer: Vec::new() }
    }

    /// Appends a record in one write. `before` is the number of the last change before the record,
    /// and `last` that of its last change; redb has synced the changes up to `synced`. After an
    /// error, nothing is appended.
    pub(in super::super) fn append(
        &mut self,
        rows: &[Row],
        [before, last]: [u64; 2],
        time: Timestamp,
        synced: u64,
    ) -> io::Result<()> {
        self.take_turns(synced)?;
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        buffer.resize(HEADER, 0);
        rows.iter().for_each(|row| buffer.extend_from_slice(row.bytes()));
        let payload = &buffer[HEADER..];
        let (length, crc) = (payload.len() as u32, crc(payload));
        let mut header = Vec::with_capacity(HEADER);
        header.extend_from_slice(&MAGIC);
        [before, last, time.0].iter().for_each(|it| header.extend_from_slice(&it.to_le_bytes()));
        [length, crc].iter().for_each(|it| header.extend_from_slice(&it.to_le_bytes()));
        let of_header = self::crc(&header);
        header.extend_from_slice(&of_header.to_le_bytes());
        buffer[..HEADER].copy_from_slice(&header);
        let written = self.files[self.active].append(&buffer, last);
        buffer.clear();
        buffer.shrink_to(KEPT_BYTES);
        self.buffer = buffer;
        written
    }

    /// Empties the other file once its changes are synced, and switches to it when the current one
    /// is long.
    fn take_turns(&mut self, synced: u64) -> io::Result<()> {
        let other = 1 - self.active;
        let [is_over, is_long] =
            [self.files[other].last <= synced, self.files[self.active].length >= FILE_BYTES];
        if self.files[other].length > 0 && is_over {
            self.files[other].cut(0)?;
        }
        if is_long && self.files[other].length == 0 {
            self.active = other;
        }
        Ok(())
    }

    /// Empties both files, once redb has synced all their changes.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.files.iter_mut().try_for_each(|open| {
            open.cut(0)?;
            open.file.sync()
        })
    }

    /// Reads the changes after `synced`. `is_same_boot` means that the machine has not restarted
    /// since they were written. Fails with the reason if a file is damaged.
    pub(super) fn replay(&mut self, synced: u64, is_same_boot: bool) -> io::Result<Replay> {
        let mut replay = Replay { last: synced, ..Replay::default() };
        let mut files = Vec::new();
        for open in &mut self.files {
            files.push(open.file.read()?);
        }
        let mut parsed: Vec<(Vec<Record<'_>>, LogEnd)> =
            files.iter().map(|bytes| parse(bytes)).collect();
        parsed.sort_by_key(|(records, _)| records.first().map_or(u64::MAX, |first| first.last));
        let damaged = |why: &str| {
            if is_same_boot {
                Err(io::Error::new(io::ErrorKind::InvalidData, why.to_owned()))
            } else {
                Ok(())
            }
        };
        for (records, end) in &parsed {
            for record in records.iter().filter(|record| record.last > synced) {
                if record.before != replay.last {
                    damaged("a record of the log is missing")?;
                    replay.is_cut = true;
                    return Ok(replay);
                }
                let mut read = 0;
                for change in decode_changes(record.payload) {
                    read += change.size();
                    replay.batch.add(change);
                }
                if read != record.payload.len() {
                    // The checksum is right, so another version has written it.
                    let why = "a record of the log has a change of an unknown kind";
                    return Err(io::Error::new(io::ErrorKind::InvalidData, why));
                }
                (replay.last, replay.time) = (record.last, record.time);
            }
            if *end == LogEnd::Damaged {
                damaged("a record of the log has a wrong checksum")?;
            }
            replay.is_cut |= *end != LogEnd::Complete;
        }
        Ok(replay)
    }
}

impl OpenLog {
    fn append(&mut self, record: &[u8], last: u64) -> io::Result<()> {
        if self.is_torn {
            self.cut(self.length)?;
        }
        self.is_torn = true;
        self.file.write(self.length, record)?;
        self.is_torn = false;
        self.length += record.len() as u64;
        self.last = last;
        Ok(())
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.file.cut(length)?;
        (self.length, self.is_torn) = (length, false);
        Ok(())
    }
}

/// A complete record.
#[derive(Debug)]
struct Record<'a> {
    before: u64,
    last: u64,
    time: Timestamp,
    payload: &'a [u8],
}

/// How a file ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LogEnd {
    /// With a complete record.
    Complete,
    /// With the beginning of a record.
    Torn,
    /// With bytes that are not a record.
    Damaged,
}

/// Returns the complete records of a file, and how it ends.
fn parse(bytes: &[u8]) -> (Vec<Record<'_>>, LogEnd) {
    let (mut records, mut rest) = (Vec::new(), bytes);
    let end = loop {
        if rest.is_empty() {
            break LogEnd::Complete;
        }
        let Some((header, behind)) = rest.split_first_chunk::<HEADER>() else { break LogEnd::Torn };
        let Some([before, last, time, length, of_payload]) = fields(header) else {
            break LogEnd::Damaged;
        };
        let Some((payload, next)) = behind.split_at_checked(length as usize) else {
            break LogEnd::Torn;
        };
        if u64::from(crc(payload)) != of_payload {
            break LogEnd::Damaged;
        }
        records.push(Record { before, last, time: Timestamp(time), payload });
        rest = next;
    };
    (records, end)
}

/// Returns the fields of a header; `None` if it is damaged.
fn fields(header: &[u8; HEADER]) -> Option<[u64; 5]> {
    let long = |at: usize| Some(u64::from_le_bytes(*header[at..].first_chunk()?));
    let short = |at: usize| Some(u32::from_le_bytes(*header[at..].first_chunk()?));
    let is_sound = header.starts_with(&MAGIC) && short(36)? == crc(&header[..36]);
    is_sound.then_some([long(4)?, long(12)?, long(20)?, short(28)?.into(), short(32)?.into()])
}

fn crc(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

#[cfg(test)]
mod tests;
