//! Access rights of a data directory. It contains payloads and results of callers, so only the user
//! of the server may read it.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

/// The mode of a new directory, which only the owner can access.
const DIRECTORY: u32 = 0o700;
/// The mode of a new file, which only the owner can access.
const FILE: u32 = 0o600;
/// The rights of other users.
const OTHERS: u32 = 0o077;

/// Creates a directory and its parents with mode 0700, regardless of the umask. An existing
/// directory keeps its rights.
pub(super) fn make_directory(path: &Path) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(DIRECTORY).create(path)?;
    fs::set_permissions(path, Permissions::from_mode(DIRECTORY))
}

/// Opens a file for reading and writing. A new file gets mode 0600, regardless of the umask.
pub(super) fn open_file(path: &Path) -> io::Result<File> {
    let is_new = !path.exists();
    let mut options = OpenOptions::new();
    let file = options.create(true).truncate(false).read(true).write(true).mode(FILE).open(path)?;
    if is_new {
        file.set_permissions(Permissions::from_mode(FILE))?;
    }
    Ok(file)
}

/// Warns if other users have rights to a directory or file. It does not change them, since an
/// operator may have set them on purpose.
pub(super) fn warn_if_wide(path: &Path) {
    let Ok(found) = fs::metadata(path) else { return };
    let mode = found.permissions().mode() & 0o7777;
    if mode & OTHERS != 0 {
        let narrow = if found.is_dir() { DIRECTORY } else { FILE };
        tracing::warn!(
            path = %path.display(),
            "other users have access to the data directory (mode {mode:04o}), which contains \
             data of callers: run chmod {narrow:o} on it"
        );
    }
}
