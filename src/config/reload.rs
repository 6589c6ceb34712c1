//! Reloads the configuration of a running server: reads and checks everything, then replaces it.
//!
//! [`Reloader::follow`] reloads on SIGHUP, and within 5 s of a change of a file. It compares the
//! contents of files and relies neither on modification times nor on file events, so it also
//! notices symlinks that Kubernetes replaces and changes on network file systems. ReloadConfig
//! calls [`Reload::reload`].

use std::{io, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    signal::unix::{SignalKind, signal},
    task::spawn_blocking,
    time::{sleep, timeout},
};

use super::{
    ConfigError, FirstConfig, LoadedConfig, ServeFlags,
    differences::{ConfigValues, Differences, section_of},
    inputs::{Inputs, Tried},
    key_set::KeySets,
};
use crate::{
    grpc::{CurrentRules, access::Access},
    server::{self, telemetry::LogLevel},
};
use tollgate_engine::Engine;
use tollgate_http::{Peers, tls::Tls};
use tollgate_status::reload::{Difference, Reload, ReloadError, Reloaded, Reloading};
use tollgate_telemetry::metrics::configuration;

/// Interval between two checks for changed files.
const CHECK_EVERY: Duration = Duration::from_secs(5);
/// Time limit for reading and checking the files, longer than fetching a key set may take. A file
/// system that does not respond must not silently block all later reloads.
const RELOAD_TIME_MAX: Duration = Duration::from_secs(15);

/// The parts of a running server that a reload replaces.
#[derive(Debug)]
pub struct LiveParts {
    /// The engine, including its limits on namespaces, waiting calls and unsynced changes.
    pub engine: Arc<Engine>,
    /// The rules for pools, rates and sequences.
    pub rules: Arc<CurrentRules>,
    /// The callers.
    pub access: Arc<Access>,
    /// The limits of connections and peers.
    pub peers: Arc<Peers>,
    /// The certificates; `None` without TLS.
    pub tls: Option<Tls>,
    /// The level of the log.
    pub log: LogLevel,
}

/// Replaces the configuration of a running server.
#[derive(Debug)]
pub struct Reloader {
    flags: ServeFlags,
    key_sets: Arc<KeySets>,
    parts: LiveParts,
    /// The values in use. Never locked while files are read, because the console and GetStatus read
    /// them on the thread that accepts connections.
    settings: Mutex<ConfigValues>,
    /// Locked during the whole reload.
    tried: Mutex<Tried>,
}

impl Reloader {
    /// Creates the reloader of a server that has started with this configuration.
    pub fn new(flags: &ServeFlags, start: FirstConfig, parts: LiveParts) -> Arc<Reloader> {
        let FirstConfig { loaded, tried, key_sets } = start;
        configuration::loaded(&loaded.hash);
        let (settings, tried) = (Mutex::new(loaded.settings), Mutex::new(tried));
        Arc::new(Reloader { flags: flags.clone(), key_sets, parts, settings, tried })
    }

    /// Whether the configuration has files that can change.
    pub fn has_files(&self) -> bool {
        let flags = &self.flags;
        flags.config.is_some() || flags.envoy_config.is_some() || self.parts.tls.is_some()
    }

    /// Returns a future that reloads on SIGHUP, and within 5 s of a change of the files. It never
    /// completes. From then on SIGHUP no longer ends the process. Fails if the platform has no
    /// SIGHUP. Must be called in a tokio runtime.
    pub fn follow(self: Arc<Self>) -> io::Result<impl Future<Output = ()> + Send> {
        let mut hangup = signal(SignalKind::hangup())?;
        let key_sets = self.key_sets.clone();
        let refresh = async move {
            loop {
                sleep(CHECK_EVERY / 5).await;
                if !key_sets.are_due() {
                    continue;
                }
                let key_sets = key_sets.clone();
                // Checks and reloads do not wait for a fetch, which may be slow.
                let _ = spawn_blocking(move || key_sets.refresh()).await;
            }
        };
        let follow = async move {
            loop {
                let is_asked = tokio::select! {
                    hangup = hangup.recv() => hangup.is_some(),
                    () = sleep(CHECK_EVERY) => false,
                };
                // On a blocking thread, because the files may be on a slow or remote disk.
                let reloader = self.clone();
                let checked = spawn_blocking(move || reloader.check(is_asked));
                if timeout(RELOAD_TIME_MAX, checked).await.is_err() {
                    tracing::error!("the configuration was not reloaded: {STUCK}");
                }
            }
        };
        Ok(async move {
            tokio::join!(refresh, follow);
        })
    }

    /// Reloads the files if requested, or if they have changed since the last attempt.
    fn check(&self, is_asked: bool) {
        // An earlier reload is still reading its files. The next check reads them again.
        let Some(mut tried) = self.tried.try_lock_for(RELOAD_TIME_MAX) else { return };
        let inputs = Inputs::read(&self.flags, &self.key_sets);
        if is_asked || tried.differs(&inputs) {
            // The result is logged.
            let _ = self.run(&mut tried, &inputs, false);
        }
    }

    /// Checks the files, and replaces the configuration as a whole, unless `dry_run`.
    fn run(
        &self,
        tried: &mut Tried,
        inputs: &Inputs,
        dry_run: bool,
    ) -> Result<Reloaded, ReloadError> {
        let in_use = self.settings.lock().clone();
        let checked = self.checked(&in_use, inputs);
        if dry_run {
            let (loaded, differences) = checked?;
            return Ok(Reloaded { differences, hash: loaded.hash });
        }
        tried.record(inputs);
        let (loaded, differences) = checked.inspect_err(|error| {
            configuration::failed(&error.to_string());
            tracing::error!(
                %error,
                "the configuration was not reloaded; the previous one stays in use"
            );
        })?;
        let hash = loaded.hash.clone();
        let settings = self.replace(loaded, &differences);
        *self.settings.lock() = settings;
        self.key_sets.keep(inputs.jwt());
        configuration::loaded(&hash);
        let changed: Vec<&str> = differences.iter().map(|it| &*it.key).collect();
        tracing::info!(hash, changed = changed.join(", "), "the configuration was reloaded");
        Ok(Reloaded { differences, hash })
    }

    /// Builds the new configuration, and compares it with the one in use. Changes nothing.
    fn checked(
        &self,
        in_use: &ConfigValues,
        inputs: &Inputs,
    ) -> Result<(LoadedConfig, Vec<Difference>), ReloadError> {
        let invalid = |error: ConfigError| ReloadError::Invalid(error.into());
        let loaded = inputs.load(&self.flags).map_err(invalid)?;
        let Differences { at_run_time, mut at_start } = in_use.differences(&loaded.settings);
        if !self.parts.engine.can_limit(&loaded.config.namespaces) {
            at_start.extend(at_run_time.iter().filter(|it| is_counted(&it.key)).cloned());
        }
        if !at_start.is_empty() {
            return Err(ReloadError::NeedsRestart(at_start));
        }
        // An expired certificate that is already in use does not prevent a reload.
        if at_run_time.iter().any(|it| section_of(&it.key) == "tls") {
            inputs.check_validity().map_err(invalid)?;
        }
        if loaded.config.callers.is_none() && !self.parts.access.is_open() {
            let reason = "caller: no [[caller]] is left, which would give everyone access; \
                restart the server if you want that";
            return Err(invalid(ConfigError::new(reason.to_owned())));
        }
        Ok((loaded, at_run_time))
    }

    /// Replaces the parts, which cannot fail. Returns the values that are now in use.
    ///
    /// Unchanged certificates and callers are kept, so that clients can resume their TLS sessions
    /// and connections need not authenticate again.
    fn replace(&self, loaded: LoadedConfig, differences: &[Difference]) -> ConfigValues {
        let is_changed = |sections: [&str; 2]| {
            let section = |it: &Difference| sections.contains(&section_of(&it.key));
            differences.iter().any(section)
        };
        let LiveParts { engine, rules, access, peers, tls, log } = &self.parts;
        let LoadedConfig { config, tls: generation, settings, .. } = loaded;
        let decisions = server::adapted(config.decisions, engine);
        engine.hub().follow(decisions.pools.clone());
        rules.replace(decisions);
        if let Err(error) = engine.hub().namespaces().set(&config.namespaces, config.servers) {
            // Cannot happen: the globs were checked with the file.
            tracing::error!(%error, "the limits of namespaces were not reloaded");
        }
        engine.set_limits(&config.limits.engine);
        peers.set_limits(&config.limits.transport);
        access.set_reflection(config.reflection);
        if let Some(callers) = config.callers.filter(|_| is_changed(["caller", "jwt"])) {
            access.replace(callers);
        }
        if let (Some(tls), Some(generation)) = (tls, generation)
            && is_changed(["tls", ""])
        {
            tls.replace(generation);
        }
        if is_changed(["log_level", ""]) {
            log.set(&config.log.level);
        }
        settings
    }
}

/// Why a reload does not finish.
const STUCK: &str = "its files could not be read within 15 s; check their file system";

fn stuck() -> ReloadError {
    ReloadError::Invalid(ConfigError::new(STUCK.to_owned()).into())
}

/// Whether a key sets a limit whose usage the embedded engine counts only from its start.
fn is_counted(key: &str) -> bool {
    key.starts_with("namespace[")
        && [".leases_max", ".queued_max", ".bytes_max"].iter().any(|end| key.ends_with(end))
}

impl Reload for Reloader {
    fn reload(self: Arc<Self>, dry_run: bool) -> Reloading {
        Box::pin(async move {
            if self.flags.config.is_none() && self.flags.envoy_config.is_none() {
                return Err(ReloadError::NoFile);
            }
            let reloading = spawn_blocking(move || {
                // Locked before the files are read, so that the second of two reloads reads the
                // newer files.
                let mut tried = self.tried.try_lock_for(RELOAD_TIME_MAX).ok_or_else(stuck)?;
                let inputs = Inputs::read(&self.flags, &self.key_sets);
                self.run(&mut tried, &inputs, dry_run)
            });
            match timeout(RELOAD_TIME_MAX, reloading).await {
                Ok(reloaded) => reloaded.unwrap_or(Err(ReloadError::Failed)),
                Err(_) => Err(stuck()),
            }
        })
    }

    fn values(&self) -> Vec<(String, String)> {
        self.settings.lock().shown()
    }
}
