#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use tollgate_core::record::Changes;

/// Two files that remain when the log is dropped.
#[derive(Debug, Clone, Default)]
struct Shared(std::sync::Arc<parking_lot::Mutex<Vec<u8>>>);

impl LogFile for Shared {
    fn read(&mut self) -> io::Result<Vec<u8>> {
        self.0.lock().read()
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.lock().write(offset, bytes)
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.0.lock().cut(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn open(files: &[Shared; 2]) -> ChangeLog {
    ChangeLog::new(files.clone().map(|file| Box::new(file) as Box<dyn LogFile>))
}

fn row(number: u64, bytes: usize) -> Row {
    let mut changes = Changes::default();
    changes.put(&[&number.to_be_bytes()], &vec![7u8; bytes]);
    let mut row = Row::default();
    row.append(changes.row());
    row
}

/// Appends changes up to `last`; redb has synced those up to `synced(last)`.
fn filled(last: u64, bytes: usize, synced: impl Fn(u64) -> u64) -> [Shared; 2] {
    let files = <[Shared; 2]>::default();
    let mut log = open(&files);
    for number in 1..=last {
        let span = [number - 1, number];
        log.append(&[row(number, bytes)], span, Timestamp(number), synced(number)).unwrap();
    }
    files
}

#[test]
fn startup_replays_changes_that_are_not_synced() {
    let files = filled(20, 10, |_| 0);
    for synced in 0..=20 {
        let replay = open(&files).replay(synced, true).unwrap();
        assert_eq!((replay.last, replay.batch.len() as u64), (20, 20 - synced));
        assert!(!replay.is_cut);
    }
}

/// Whether or not the machine has restarted, a later version has written it.
#[test]
fn a_change_of_an_unknown_kind_is_refused() {
    let [file, other] = filled(2, 10, |_| 0);
    let mut bytes = file.0.lock().clone();
    let end = parse(&bytes).0[0].payload.len() + HEADER;
    // The kind of the first change of the second record, with the checksums of its record.
    bytes[end + HEADER] = b'?';
    let payload = crc(&bytes[end + HEADER..]).to_le_bytes();
    bytes[end + 32..end + 36].copy_from_slice(&payload);
    let header = crc(&bytes[end..end + 36]).to_le_bytes();
    bytes[end + 36..end + HEADER].copy_from_slice(&header);
    *file.0.lock() = bytes;
    for is_same_boot in [true, false] {
        let why = open(&[file.clone(), other.clone()]).replay(0, is_same_boot).unwrap_err();
        assert!(why.to_string().contains("unknown kind"), "{why}");
    }
}

#[test]
fn synced_records_make_room_for_others() {
    let bytes = 1 << 20;
    let files = filled(100, bytes, |number| number.saturating_sub(3));
    for file in &files {
        assert!(file.0.lock().len() < 12 * bytes, "{} bytes", file.0.lock().len());
    }
    let replay = open(&files).replay(97, true).unwrap();
    assert_eq!((replay.last, replay.batch.len()), (100, 3));
    let missing = open(&files).replay(50, true).unwrap_err();
    assert!(missing.to_string().contains("missing"), "{missing}");
}

#[test]
fn an_incomplete_record_is_cut_off_and_a_damaged_one_is_refused() {
    let files = filled(3, 10, |_| 0);
    let sound = files[0].0.lock().clone();
    let record = sound.len() / 3;
    for length in 2 * record + 1..sound.len() {
        *files[0].0.lock() = sound[..length].to_vec();
        let replay = open(&files).replay(0, true).unwrap();
        assert_eq!((replay.last, replay.is_cut), (2, true), "{length}");
    }
    for at in record..sound.len() {
        let mut bytes = sound.clone();
        bytes[at] ^= 1;
        *files[0].0.lock() = bytes;
        assert!(open(&files).replay(0, true).is_err(), "{at}");
        // After a power loss, the records before it count.
        let replay = open(&files).replay(0, false).unwrap();
        assert_eq!((replay.last, replay.is_cut), (1 + u64::from(at >= 2 * record), true));
    }
}

#[test]
fn a_failed_write_leaves_no_partial_record() {
    let files = filled(1, 10, |_| 0);
    let mut log = open(&files);
    log.files[0].length = files[0].0.lock().len() as u64;
    log.files[0].is_torn = true;
    files[0].0.lock().extend([1; 7]);
    log.append(&[row(2, 10)], [1, 2], Timestamp(2), 0).unwrap();
    let replay = open(&files).replay(0, true).unwrap();
    assert_eq!((replay.last, replay.is_cut), (2, false));
}
