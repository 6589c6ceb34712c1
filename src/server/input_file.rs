//! Reads the files that a configuration names.

use std::{
    fs::OpenOptions,
    io::{self, ErrorKind, Read},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use rustix::fs::OFlags;

/// Maximum length of a file, unless its reader has its own.
const BYTES_MAX: u64 = 16 << 20;

/// Reads a regular file of at most 16 MiB. Fails if it is longer, or if it is a directory, a pipe, a
/// socket or a device: reading one of those may never end. Symlinks are followed, because Kubernetes
/// mounts files as symlinks.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Without O_NONBLOCK, opening a FIFO waits for its writer.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "expected a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > BYTES_MAX {
        Err(io::Error::new(ErrorKind::FileTooLarge, "the file is longer than 16 MiB"))
    } else {
        Ok(bytes)
    }
}

/// Reads a file as [`read`] does. Fails if it is not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?)
        .map_err(|_| io::Error::new(ErrorKind::InvalidData, "the file is not UTF-8 text"))
}
