//! Runs each load against each row, in turn.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use indicatif::{ProgressBar, ProgressStyle};

use crate::{
    closed_loop::{self, Callers},
    kind::CONFIGURATION,
    options::Options,
    results::Results,
    row::{self, CLUSTER, EMBEDDED, LANES, OTHER, OTHER_LANES, PER_CALL, Row},
};

/// Hands out unused ports.
pub(crate) struct Ports(u16);

impl Ports {
    pub(crate) fn from(first: u16) -> Ports {
        Ports(first)
    }

    pub(crate) fn next(&mut self) -> u16 {
        loop {
            let port = self.0;
            self.0 = self.0.checked_add(1).expect("a port is free");
            if TcpListener::bind(row::loopback(port)).is_ok() {
                return port;
            }
        }
    }
}

/// Folder of temporary files.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("side_by_side")
}

/// Returns the measured program.
pub(crate) fn program(options: &Options) -> &Path {
    options.server.as_deref().unwrap_or(Path::new(env!("CARGO_BIN_EXE_tollgate")))
}

/// Starts the rows of this project; also returns those that cannot be measured, with reasons.
pub(crate) async fn start(
    options: &Options,
    ports: &mut Ports,
) -> Result<(Vec<Row>, Vec<(&'static str, String)>), String> {
    let (kinds, program) = (options.kinds(), program(options));
    let folder = folder();
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let default = written(&folder.join("tollgate.toml"), CONFIGURATION)?;
    let per_call = format!("[redis]\nbatch_max = 1\n{CONFIGURATION}");
    let per_call = written(&folder.join("per_call.toml"), &per_call)?;
    let mut rows = vec![
        Row::echo(kinds, ports.next()).await?,
        Row::tollgate(EMBEDDED, program, &default, &[], kinds).await?,
    ];
    if let Some(other) = &options.other {
        rows.push(Row::tollgate(OTHER, other, &default, &[], kinds).await?);
    }
    let mut skipped = Vec::new();
    if options.no_redis {
        return Ok((rows, skipped));
    }
    if takes(program, &per_call) {
        let port = ports.next();
        rows.push(Row::tollgate(PER_CALL, program, &per_call, &[port], kinds).await?);
    } else {
        skipped.push((PER_CALL, "this server knows no `batch_max` in [redis]".to_owned()));
    }
    rows.push(Row::tollgate(LANES, program, &default, &[ports.next()], kinds).await?);
    if let Some(other) = &options.other {
        let port = ports.next();
        rows.push(Row::tollgate(OTHER_LANES, other, &default, &[port], kinds).await?);
    }
    if options.cluster {
        let primaries = [ports.next(), ports.next(), ports.next()];
        rows.push(Row::tollgate(CLUSTER, program, &default, &primaries, kinds).await?);
    }
    Ok((rows, skipped))
}

fn written(path: &Path, text: &str) -> Result<PathBuf, String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path.to_owned())
}

/// Whether the program accepts a configuration.
fn takes(program: &Path, configuration: &Path) -> bool {
    let mut check = Command::new(program);
    check.arg("check-config").arg(configuration).stdout(Stdio::null()).stderr(Stdio::null());
    check.status().is_ok_and(|status| status.success())
}

/// Runs all loads.
pub(crate) async fn run(options: &Options, rows: &mut [Row]) -> Results {
    let mut results = Results::default();
    let plan = options.plan();
    let runs_of = |row: &Row| plan.iter().filter(|(kind, _)| row.loads.contains_key(kind)).count();
    let runs = options.reps() as usize * rows.iter().map(runs_of).sum::<usize>();
    let progress = ProgressBar::new(runs as u64).with_style(
        ProgressStyle::with_template("{bar:30} {pos}/{len} runs, {eta} left  {msg}")
            .expect("a sound template"),
    );
    for _ in 0..options.reps() {
        for (kind, in_flight) in &plan {
            for row in rows.iter_mut() {
                let Some(load) = row.loads.get(kind).cloned() else { continue };
                progress.set_message(format!(
                    "{}, {in_flight} in flight: {}",
                    kind.title(),
                    row.name
                ));
                let callers = Callers::in_flight(*in_flight as usize);
                let run = closed_loop::run(row, &load, callers, options.timing()).await;
                let run = run.by_decision(f64::from(kind.decisions()));
                results.add((*kind, *in_flight, row.name), run);
                progress.inc(1);
            }
        }
    }
    progress.finish_and_clear();
    results
}
