//! The lock of a data directory, which lets one process use it at a time.
//!
//! If another process has the lock, startup waits up to [`WAIT`] and then fails. A killed process
//! keeps its lock until the system has reclaimed its memory. Without the wait, a supervisor that
//! restarts the server immediately would find the directory locked.

use std::{
    fs::{File, TryLockError},
    io,
    thread::sleep,
    time::Duration,
};

use tollgate_core::time::monotonic;

/// How long to wait for a lock of another process.
pub(super) const WAIT: Duration = Duration::from_secs(1);
const RETRY_EVERY: Duration = Duration::from_millis(10);

/// A locked file.
///
/// The lock belongs to the open file, which a child process shares from its fork to its exec. It is
/// therefore released explicitly: if the file were only closed here, the lock would last until the
/// child ends.
#[derive(Debug)]
pub(super) struct DirectoryLock(File);

impl DirectoryLock {
    /// Locks a file, and waits up to `wait` if another process has locked it.
    pub(super) fn take(file: File, wait: Duration) -> Result<DirectoryLock, TryLockError> {
        when_free(|| file.try_lock(), |error| matches!(error, TryLockError::WouldBlock), wait)?;
        Ok(DirectoryLock(file))
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // If that fails, closing the file releases the lock.
        let _: io::Result<()> = self.0.unlock();
    }
}

/// Repeats an attempt that fails because another process has a lock, for up to `wait`.
pub(super) fn when_free<T, E>(
    mut attempt: impl FnMut() -> Result<T, E>,
    is_taken: impl Fn(&E) -> bool,
    wait: Duration,
) -> Result<T, E> {
    let until = monotonic() + wait;
    loop {
        match attempt() {
            Err(error) if is_taken(&error) && monotonic() < until => sleep(RETRY_EVERY),
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{env::temp_dir, fs, process};

    use super::*;

    #[test]
    fn a_child_process_that_shares_the_open_file_does_not_keep_the_lock() {
        let path = temp_dir().join(format!("tollgate-test-lock-{}", process::id()));
        let open = || File::create(&path).unwrap();
        let lock = DirectoryLock::take(open(), Duration::ZERO).unwrap();
        // The open file that a child shares from its fork to its exec.
        let shared = lock.0.try_clone().unwrap();
        assert!(matches!(
            DirectoryLock::take(open(), Duration::ZERO),
            Err(TryLockError::WouldBlock)
        ));
        drop(lock);
        DirectoryLock::take(open(), Duration::ZERO)
            .expect("the lock is free although the open file is shared");
        drop(shared);
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_locked_directory_is_tried_until_it_is_free() {
        let (mut attempts, wait) = (0, Duration::from_secs(60));
        let mut attempt = || {
            attempts += 1;
            if attempts < 3 { Err("taken") } else { Ok(attempts) }
        };
        assert_eq!(when_free(&mut attempt, |error| *error == "taken", wait), Ok(3));
        let failed = when_free(|| Err::<(), _>("broken"), |error| *error == "taken", wait);
        assert_eq!(failed, Err("broken"), "other errors are not retried");
        let taken = when_free(|| Err::<(), _>("taken"), |_| true, Duration::ZERO);
        assert_eq!(taken, Err("taken"), "it fails when the time is over");
    }
}
