//! `tollgate export` and `tollgate import`: write the state of an engine to a file, and load it
//! again.
//!
//! An import reads the file twice, because it writes nothing before the whole file is validated.
//! Afterwards it reads the target back and compares the counts.

use std::{
    collections::HashMap,
    fmt,
    fs::{self, File, OpenOptions, Permissions},
    io::{self, BufReader, BufWriter, ErrorKind, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use tollgate_cli::progress::Progress;
use tollgate_engine::export::{Counts, Failure, Line, Reader, Store, Unfit, Writer};
use tollgate_telemetry::text::grouped;

/// File mode of an export: only the owner may read it, since it contains the data of callers.
const RIGHTS: u32 = 0o600;
/// An import warns if the clock of the target lags by more than this, µs.
const BEHIND: u64 = 1_000_000;

/// The result of an import.
#[derive(Debug)]
pub struct Imported {
    /// Number of entries that are in the target now.
    pub counts: Counts,
    /// Number of lines that were skipped because they had expired.
    pub lapsed: u64,
    /// Lag of the target's clock behind the source, µs; 0 if it is at most one second.
    pub behind: u64,
}

impl Imported {
    /// Returns the result as JSON, with stable keys.
    pub(super) fn json(&self) -> Value {
        let Imported { counts: Counts { lines, counts }, lapsed, behind } = self;
        json!({ "lines": lines, "counts": counts, "lapsed": lapsed, "behindMicros": behind })
    }
}

impl fmt::Display for Imported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "imported and counted: {}", self.counts)?;
        if self.lapsed > 0 {
            write!(f, "\nskipped, because they have expired: {}", grouped(self.lapsed))?;
        }
        if self.behind > 0 {
            let behind = std::time::Duration::from_micros(self.behind);
            let behind = humantime::format_duration(behind);
            write!(f, "\nthe target's clock is {behind} behind, so leases last that much longer")?;
        }
        Ok(())
    }
}

/// Writes an export to a file or to standard output. Until it is complete, the file is named
/// `<output>.part`.
pub async fn export(store: &mut Store, output: Option<&Path>) -> Result<Counts, Failure> {
    let Some(path) = output else { return export_to(store, io::stdout()).await.map(|of| of.1) };
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let failed = |error: io::Error| {
        Failure::File(io::Error::new(error.kind(), format!("{}: {error}", path.display())))
    };
    let file = make(&part).map_err(Failure::File)?;
    match export_to(store, file).await {
        Ok((file, counts)) => {
            file.sync_all().and_then(|()| fs::rename(&part, path)).map_err(failed)?;
            Ok(counts)
        }
        Err(failure) => {
            // Every import would refuse the incomplete file.
            let _ = fs::remove_file(&part);
            Err(failure)
        }
    }
}

/// Creates a file that only its owner can read, whatever the umask. Replaces the regular file that
/// a killed export has left. Fails if the path is anything else, such as a symlink that another
/// user has created.
fn make(path: &Path) -> io::Result<File> {
    if fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file()) {
        fs::remove_file(path)?;
    }
    let created = OpenOptions::new().write(true).create_new(true).mode(RIGHTS).open(path);
    let file = created.map_err(|error| {
        let reason = match error.kind() {
            ErrorKind::AlreadyExists => "it exists and is not a regular file; remove it".to_owned(),
            _ => error.to_string(),
        };
        io::Error::new(error.kind(), format!("{}: {reason}", path.display()))
    })?;
    // The umask may have removed permissions of the owner.
    file.set_permissions(Permissions::from_mode(RIGHTS))?;
    Ok(file)
}

/// Writes an export to a writer. Checks each line, so that every export can be imported.
async fn export_to<W: Write + Send>(store: &mut Store, to: W) -> Result<(W, Counts), Failure> {
    let now = store.now().await?;
    let to = BufWriter::with_capacity(1 << 16, to);
    let mut writer =
        Writer::begin(to, store.name(), now, store.id().await).map_err(Failure::File)?;
    let progress = Progress::new("exported", None);
    let mut write = |line: Line| {
        progress.show(writer.lines());
        // Every import would refuse the line.
        line.check().map_err(|why| {
            let json = serde_json::to_string(&line).unwrap_or_default();
            Failure::Damaged(format!("a stored entry is out of range: {why}: {json}"))
        })?;
        writer.write(&line).map_err(Failure::File)
    };
    store.read(&mut write).await?;
    progress.end();
    let (to, counts) = writer.end().map_err(Failure::File)?;
    let to = to.into_inner().map_err(|error| Failure::File(error.into_error()))?;
    Ok((to, counts))
}

/// Imports a file into a store. With `replace`, all existing state is removed first; without it,
/// the import fails unless the store is empty.
pub async fn import(store: &mut Store, file: &Path, replace: bool) -> Result<Imported, Failure> {
    let checked = check(file)?;
    if !replace && !store.is_empty().await? {
        return Err(Failure::Occupied(
            "the target is not empty: choose an empty one, or remove its state with --replace"
                .to_owned(),
        ));
    }
    let now = store.now().await?;
    let mut reader = open(file)?;
    let behind = reader.time().saturating_sub(now);
    store.begin(reader.time()).await?;
    let progress = Progress::new("imported", Some(checked.lines));
    let (mut written, mut ends, mut lapsed) = (Counts::default(), ExpiryTimes::default(), 0);
    while let Some(line) = reader.next_line().map_err(unfit(file))? {
        progress.show(written.lines);
        if line.has_lapsed(now) {
            lapsed += 1;
            continue;
        }
        store.write(&line).await?;
        written.add(line.kind());
        ends.0.entry(line.kind()).or_default().extend(line.forget());
    }
    if *reader.counts() != checked {
        let why = "the file changed during the import: import it again with --replace";
        return Err(unfit(file)(Unfit::Wrong(why.to_owned())));
    }
    store.flush().await?;
    progress.end();
    let counts = verify(store, &written, &ends).await?;
    store.finish(reader.store_id()).await?;
    let behind = if behind > BEHIND { behind } else { 0 };
    Ok(Imported { counts, lapsed, behind })
}

/// Expiry times of the written lines by kind, µs.
#[derive(Debug, Default)]
struct ExpiryTimes(HashMap<&'static str, Vec<u64>>);

/// Counts the entries of the target by kind. Fails unless the counts match, apart from entries that
/// have expired since they were written.
async fn verify(
    store: &mut Store,
    written: &Counts,
    ends: &ExpiryTimes,
) -> Result<Counts, Failure> {
    let mut found = Counts::default();
    let progress = Progress::new("counted", Some(written.lines));
    let mut count = |line: Line| {
        found.add(line.kind());
        progress.show(found.lines);
        Ok(())
    };
    store.read(&mut count).await?;
    progress.end();
    let now = store.now().await?;
    let kinds = written.counts.keys().chain(found.counts.keys());
    for kind in kinds {
        let lapsed = ends
            .0
            .get(&kind[..])
            .map_or(0, |ends| ends.iter().filter(|forget| **forget <= now).count() as u64);
        let (is, was) = (found.of(kind), written.of(kind));
        if is > was || is + lapsed < was {
            return Err(Failure::Unverified(format!(
                "{} entries of kind {kind} were written, but {} were found: if a server is using \
                 the target, stop it, and import again with --replace before you serve from the \
                 target",
                grouped(was),
                grouped(is)
            )));
        }
    }
    Ok(found)
}

/// Opens an export; errors name its path.
fn open(file: &Path) -> Result<Reader<BufReader<File>>, Failure> {
    let opened = File::open(file).map_err(|error| unfit(file)(Unfit::Unread(error)))?;
    Reader::open(BufReader::with_capacity(1 << 16, opened)).map_err(unfit(file))
}

/// Adds the path of the file to an error.
fn unfit(file: &Path) -> impl Fn(Unfit) -> Failure {
    let file = file.display().to_string();
    move |unfit| {
        Failure::Unfit(match unfit {
            Unfit::Wrong(why) => Unfit::Wrong(format!("{file}: {why}")),
            Unfit::Unread(error) => {
                Unfit::Unread(io::Error::new(error.kind(), format!("{file}: {error}")))
            }
        })
    }
}

/// Validates a whole file and returns its counts.
fn check(file: &Path) -> Result<Counts, Failure> {
    let mut reader = open(file)?;
    let progress = Progress::new("checked", None);
    while reader.next_line().map_err(unfit(file))?.is_some() {
        progress.show(reader.counts().lines);
    }
    progress.end();
    Ok(reader.counts().clone())
}
