//! `tollgate export` and `tollgate import`: what an engine holds into an archive, and back.
//!
//! An import reads the archive twice: nothing is written before all of it was found whole.
//! What it wrote it reads again, and counts.

mod progress;

use std::{
    collections::HashMap,
    fmt,
    fs::{self, File, OpenOptions, Permissions},
    io::{self, BufReader, BufWriter, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use crate::{
    archive::{Counts, Line, Reader, Unfit, Writer},
    engine::archive::{Failure, Store},
    text::grouped,
};
use progress::Progress;

/// An archive holds what callers have sent: it is its owner's alone.
const RIGHTS: u32 = 0o600;
/// A target's clock that is further behind than this is told of, µs.
const BEHIND: u64 = 1_000_000;

/// What was imported.
#[derive(Debug)]
pub struct Imported {
    /// What is there now.
    pub counts: Counts,
    /// How many lines had lapsed since they were written.
    pub lapsed: u64,
    /// How far the target's clock is behind that of the source, µs; 0 unless it matters.
    pub behind: u64,
}

impl fmt::Display for Imported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "imported and counted: {}", self.counts)?;
        if self.lapsed > 0 {
            write!(f, "\nleft out, since their time was over: {}", grouped(self.lapsed))?;
        }
        if self.behind > 0 {
            let behind = std::time::Duration::from_micros(self.behind);
            let behind = humantime::format_duration(behind);
            write!(f, "\nthe target's clock is {behind} behind: leases last so much longer")?;
        }
        Ok(())
    }
}

/// Writes an archive to a file, which is there once it is whole, or to standard output.
pub async fn export(store: &mut Store, output: Option<&Path>) -> Result<Counts, Failure> {
    let Some(path) = output else { return export_to(store, io::stdout()).await.map(|of| of.1) };
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let failed = |error: io::Error| {
        Failure::File(io::Error::new(error.kind(), format!("{}: {error}", path.display())))
    };
    let file = make(&part).map_err(failed)?;
    match export_to(store, file).await {
        Ok((file, counts)) => {
            file.sync_all().and_then(|()| fs::rename(&part, path)).map_err(failed)?;
            Ok(counts)
        }
        Err(failure) => {
            // What is left of it is cut, and no import takes it.
            let _ = fs::remove_file(&part);
            Err(failure)
        }
    }
}

/// Makes a file that only its owner reads, whatever the umask.
fn make(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.create(true).truncate(true).write(true).mode(RIGHTS).open(path)?;
    // One that was left there may have had others.
    file.set_permissions(Permissions::from_mode(RIGHTS))?;
    Ok(file)
}

async fn export_to<W: Write + Send>(store: &mut Store, to: W) -> Result<(W, Counts), Failure> {
    let now = store.now().await?;
    let to = BufWriter::with_capacity(1 << 16, to);
    let mut writer = Writer::begin(to, store.name(), now).map_err(Failure::File)?;
    let progress = Progress::new("exported", None);
    let mut write = |line: Line| {
        progress.show(writer.lines());
        // No import would take it.
        line.check().map_err(|why| {
            let json = serde_json::to_string(&line).unwrap_or_default();
            Failure::Damaged(format!("what is stored is out of range: {why}: {json}"))
        })?;
        writer.write(&line).map_err(Failure::File)
    };
    store.read(&mut write).await?;
    progress.end();
    let (to, counts) = writer.end().map_err(Failure::File)?;
    let to = to.into_inner().map_err(|error| Failure::File(error.into_error()))?;
    Ok((to, counts))
}

/// Takes an archive in; in place of all that the store holds if it may be replaced.
pub async fn import(store: &mut Store, file: &Path, replace: bool) -> Result<Imported, Failure> {
    let checked = check(file)?;
    if !replace && !store.is_empty().await? {
        return Err(Failure::Occupied(
            "the target holds something already: name an empty one, or --replace all that it \
             holds"
                .to_owned(),
        ));
    }
    let now = store.now().await?;
    let mut reader = open(file)?;
    let behind = reader.time().saturating_sub(now);
    store.begin(reader.time()).await?;
    let progress = Progress::new("imported", Some(checked.lines));
    let (mut written, mut ends, mut lapsed) = (Counts::default(), Ends::default(), 0);
    while let Some(line) = reader.next().map_err(unfit(file))? {
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
        let why = "it has changed since it was checked: import it again, with --replace";
        return Err(unfit(file)(Unfit::Wrong(why.to_owned())));
    }
    store.flush().await?;
    progress.end();
    let counts = verify(store, &written, &ends).await?;
    store.finish().await?;
    let behind = if behind > BEHIND { behind } else { 0 };
    Ok(Imported { counts, lapsed, behind })
}

/// When lines that were written lapse, by kind.
#[derive(Debug, Default)]
struct Ends(HashMap<&'static str, Vec<u64>>);

/// Counts what is there. What lapses meanwhile may be gone, and nothing else.
async fn verify(store: &mut Store, written: &Counts, ends: &Ends) -> Result<Counts, Failure> {
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
                "{} of kind {kind} were written, and {} are there: does a server use the target? \
                 Stop it, and import again with --replace; serve nothing from it until then",
                grouped(was),
                grouped(is)
            )));
        }
    }
    Ok(found)
}

fn open(file: &Path) -> Result<Reader<BufReader<File>>, Failure> {
    let opened = File::open(file).map_err(|error| unfit(file)(Unfit::Unread(error)))?;
    Reader::open(BufReader::with_capacity(1 << 16, opened)).map_err(unfit(file))
}

/// Says which file it is about.
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

/// Reads all of an archive; how many lines there are.
fn check(file: &Path) -> Result<Counts, Failure> {
    let mut reader = open(file)?;
    let progress = Progress::new("checked", None);
    while reader.next().map_err(unfit(file))?.is_some() {
        progress.show(reader.counts().lines);
    }
    progress.end();
    Ok(reader.counts().clone())
}
