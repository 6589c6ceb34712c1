//! All files of a configuration, each read once: the configuration file, the certificates, the key
//! set and Envoy's rules.

use std::{
    hash::{Hash, Hasher},
    path::PathBuf,
    sync::Arc,
};

use ahash::RandomState;

use super::{
    Config, ConfigError, Read, ServeFlags, access, build,
    differences::ConfigValues,
    envoy,
    file::File,
    jwt::{JwtSection, KeySet},
    key_set::KeySets,
    parse_text,
    tls::TlsOptions,
};
use crate::server::input_file;
use tollgate_core::envoy::{EnvoyRules, RuleFile};
use tollgate_http::tls::{TlsContents, TlsGeneration};

/// The contents of all files of a configuration.
#[derive(Debug)]
pub(super) struct Inputs {
    /// The configuration file; `None` without one.
    file: Option<FileInput>,
    /// The TLS files and their options; `None` without TLS, or if the options are invalid.
    tls: Option<(TlsOptions, TlsContents)>,
    /// The key set of `[jwt]`; empty without one.
    key_set: Result<Vec<u8>, String>,
    /// The folder with Envoy's rules and its files; `None` without one.
    envoy: Option<(PathBuf, Vec<RuleFile>)>,
}

#[derive(Debug)]
struct FileInput {
    path: PathBuf,
    text: Result<String, String>,
    parsed: Result<File, ConfigError>,
}

/// A configuration whose files have been read and checked.
#[derive(Debug)]
pub struct LoadedConfig {
    /// The configuration.
    pub config: Config,
    /// The certificates; `None` without TLS.
    pub tls: Option<TlsGeneration>,
    /// The hash of the values that servers share; empty without a configuration file.
    pub hash: String,
    /// The values of all keys.
    pub(super) settings: ConfigValues,
}

/// The first configuration of a server, and its files, which reloads compare.
#[derive(Debug)]
pub struct FirstConfig {
    /// The configuration.
    pub loaded: LoadedConfig,
    pub(super) tried: Tried,
    pub(super) key_sets: Arc<KeySets>,
}

/// The files that were tried last, usable or not.
#[derive(Debug)]
pub(super) struct Tried {
    hashes: RandomState,
    hash: u64,
}

impl Tried {
    /// Whether the files differ from those that were tried last.
    pub(super) fn differs(&self, inputs: &Inputs) -> bool {
        self.hashes.hash_one(inputs) != self.hash
    }

    /// Records that these files were tried last.
    pub(super) fn record(&mut self, inputs: &Inputs) {
        self.hash = self.hashes.hash_one(inputs);
    }
}

impl FirstConfig {
    /// Reads and checks all files that the flags name. Fetching a key set from a URL can block for
    /// 10 s.
    ///
    /// Fails if a file cannot be read, a value is invalid, or two settings exclude each other.
    pub fn read(flags: &ServeFlags) -> Result<FirstConfig, ConfigError> {
        let (hashes, key_sets) = (RandomState::new(), Arc::<KeySets>::default());
        let inputs = Inputs::read(flags, &key_sets);
        let tried = Tried { hash: hashes.hash_one(&inputs), hashes };
        let loaded = inputs.load(flags)?;
        inputs.check_validity()?;
        Ok(FirstConfig { loaded, tried, key_sets })
    }
}

impl FileInput {
    fn read(path: PathBuf) -> FileInput {
        let text = input_file::read_text(&path).map_err(|error| error.to_string());
        let parsed = match &text {
            Ok(text) => parse_text(&path, text),
            Err(error) => Err(ConfigError::unread(&path, error)),
        };
        FileInput { path, text, parsed }
    }
}

impl Inputs {
    /// Reads the files. The error of a file that cannot be read takes the place of its contents.
    /// Can block.
    pub(super) fn read(flags: &ServeFlags, key_sets: &KeySets) -> Inputs {
        let file = flags.config.clone().map(FileInput::read);
        let parsed = file.as_ref().and_then(|file| file.parsed.as_ref().ok());
        let section = parsed.map(|file| file.tls.clone()).unwrap_or_default();
        let options = section.options(&flags.tls).ok().flatten();
        let tls = options.map(|options| {
            let contents = TlsContents::load(&options.files, input_file::read);
            (options, contents)
        });
        let jwt = parsed.and_then(|file| file.jwt.as_ref());
        let key_set = jwt.map_or(Ok(Vec::new()), |jwt| key_sets.document(jwt));
        let folder = parsed.and_then(|file| file.envoy.config.clone());
        let envoy = flags.envoy_config.clone().or(folder).map(|folder| {
            let files = envoy::read_folder(&folder);
            (folder, files)
        });
        Inputs { file, tls, key_set, envoy }
    }

    /// Checks everything and builds the configuration. Changes nothing.
    pub(super) fn load(&self, flags: &ServeFlags) -> Result<LoadedConfig, ConfigError> {
        let placed = |error, is_of_file| self.placed(error, is_of_file);
        let read = self.read_file().map_err(|error| placed(error, true))?;
        let file = read.file.clone();
        let mut config = Config::merge(flags, read).map_err(|error| placed(error, false))?;
        if let Some((_, files)) = &self.envoy {
            let rules = EnvoyRules::new(files, file.envoy.settings());
            let rules =
                rules.map_err(|error| ConfigError::new(format!("envoy.config: {error}")))?;
            config.decisions = config.decisions.with_envoy(rules);
        }
        if self.file.is_some() {
            let has_client_ca = config.tls.as_ref().is_some_and(|tls| tls.files.client.is_some());
            let checked = access::check(&file, config.callers.is_some(), has_client_ca);
            checked.map_err(|error| placed(ConfigError::new(error), true))?;
        }
        let build = |(options, contents): &(TlsOptions, TlsContents)| {
            let built = contents.build(options.max_connection_age);
            // Checked first, because "expired" explains more than "the key does not match".
            let explained = |error| contents.check_validity().err().unwrap_or(error);
            built.map_err(|error| placed(ConfigError::new(explained(error)), false))
        };
        let tls = self.tls.as_ref().map(build).transpose()?;
        let text = self.text();
        let mut settings = ConfigValues::new(text, flags, &config, self.contents(), self.key_set());
        if let Some((folder, files)) = &self.envoy {
            settings.add_folder("envoy.config", folder, files);
        }
        let hash = text.map(|_| settings.hash()).unwrap_or_default();
        Ok(LoadedConfig { config, tls, hash, settings })
    }

    /// Fails if the certificate is expired or not yet valid.
    pub(super) fn check_validity(&self) -> Result<(), ConfigError> {
        let checked = self.contents().map_or(Ok(()), TlsContents::check_validity);
        checked.map_err(|error| self.placed(ConfigError::new(error), false))
    }

    /// Adds the file to an error.
    fn placed(&self, error: ConfigError, is_of_file: bool) -> ConfigError {
        match &self.file {
            Some(FileInput { path, text: Ok(text), .. }) => error.within(path, text, is_of_file),
            _ => error,
        }
    }

    /// Checks the file, and builds its rules.
    fn read_file(&self) -> Result<Read, ConfigError> {
        let Some(file) = &self.file else { return Ok(Read::default()) };
        build(file.parsed.clone()?, KeySet::Read(&self.key_set)).map_err(ConfigError::new)
    }

    /// Returns the section `[jwt]`, if the file can be parsed.
    pub(super) fn jwt(&self) -> Option<&JwtSection> {
        self.file.as_ref()?.parsed.as_ref().ok()?.jwt.as_ref()
    }

    fn text(&self) -> Option<&str> {
        self.file.as_ref()?.text.as_deref().ok()
    }

    fn contents(&self) -> Option<&TlsContents> {
        self.tls.as_ref().map(|(_, contents)| contents)
    }

    /// Returns the document of the key set, if there is one.
    fn key_set(&self) -> Option<&[u8]> {
        self.key_set.as_deref().ok().filter(|document| !document.is_empty())
    }
}

/// Returns the hash of a file's contents, or of the error of reading it.
impl Hash for Inputs {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.file.as_ref().map(|file| &file.text).hash(hasher);
        self.contents().hash(hasher);
        self.key_set.hash(hasher);
        self.envoy.hash(hasher);
    }
}
