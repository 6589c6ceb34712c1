//! Common flags of the client commands.

use std::{ops::RangeInclusive, path::PathBuf, time::Duration};

use bytes::Bytes;
use clap::{Args, ValueEnum, builder::RangedI64ValueParser, value_parser};

use tollgate_client::{Access, Against, check_url, pb, time};

use tollgate_core::{
    names::{Name, Namespace},
    rate::{
        Algorithm, BUCKET_MAX, CALENDAR_MAX, COUNT_MAX, LENGTH_MAX, LENGTH_MIN, LimitSpec,
        RuleSpec, TierAction, TierSpec, Violation,
    },
    time::Millis,
};

/// Default of `--max` without `--ban-above`.
const MAX: u32 = 10;

/// TLS, token and namespace of a client command.
#[derive(Debug, Clone, Default, Args)]
pub struct AccessFlags {
    /// CA certificates that verify the server, PEM; for https [default: those that the system
    /// trusts]
    #[arg(long, value_name = "FILE", env = "TOLLGATE_TLS_CA", global = true)]
    pub tls_ca: Option<PathBuf>,

    /// Client certificate, PEM; for https
    #[arg(long, value_name = "FILE", env = "TOLLGATE_TLS_CERT", global = true)]
    pub tls_cert: Option<PathBuf>,

    /// Private key of the client certificate, PEM
    #[arg(long, value_name = "FILE", env = "TOLLGATE_TLS_KEY", global = true)]
    pub tls_key: Option<PathBuf>,

    /// File with the token that every call sends as `authorization: Bearer`
    #[arg(long, value_name = "FILE", env = "TOLLGATE_TOKEN_FILE", global = true)]
    pub token_file: Option<PathBuf>,

    /// Namespace of the calls, if the caller may use several [default: the caller's own]
    #[arg(long, value_name = "NAME", env = "TOLLGATE_NAMESPACE", global = true)]
    #[arg(value_parser = namespace)]
    pub namespace: Option<String>,
}

impl From<&AccessFlags> for Access {
    fn from(flags: &AccessFlags) -> Access {
        let AccessFlags { tls_ca, tls_cert, tls_key, token_file, namespace } = flags.clone();
        Access { ca: tls_ca, cert: tls_cert, key: tls_key, token_file, namespace }
    }
}

/// The server of a client command.
#[derive(Debug, Clone, Args)]
pub struct ServerFlags {
    /// URL of the server
    #[arg(long = "server", value_name = "URL", env = "TOLLGATE_SERVER", value_parser = server)]
    #[arg(default_value = "http://127.0.0.1:50051", global = true)]
    pub url: String,

    /// TLS, token and namespace.
    #[command(flatten)]
    pub access: AccessFlags,
}

/// Selects the names in a listing.
#[derive(Debug, Clone, Args)]
pub struct PrefixFlags {
    /// List only names that begin with this text, at most 256 bytes [default: all]
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    #[arg(value_parser = prefix)]
    pub prefix: String,
}

/// A limit with warning and ban levels.
#[derive(Debug, Clone, Args)]
pub struct RuleFlags {
    /// Maximum number of calls per key in a window [default: --ban-above if it is set, otherwise
    /// 10]
    #[arg(long, value_name = "CALLS", value_parser = number(0..=COUNT_MAX))]
    pub max: Option<u32>,

    /// Length of the window, such as `500ms`, `1m` or `1day`: 1ms to 30days, or up to 365days for a
    /// calendar window
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = window)]
    pub window: Millis,

    /// Algorithm for counting calls
    #[arg(long, value_name = "NAME", default_value = "sliding-window")]
    pub algorithm: AlgorithmName,

    /// Maximum size of a burst of calls, for token-bucket [default: --max]
    #[arg(long, value_name = "CALLS", value_parser = number(1..=BUCKET_MAX))]
    pub burst: Option<u32>,

    /// Allow calls above this count with a warning; must be below --max
    #[arg(long, value_name = "CALLS", value_parser = number(0..=COUNT_MAX))]
    pub warn_above: Option<u32>,

    /// Ban a key whose count exceeds this; refused calls are counted too
    #[arg(long, value_name = "CALLS", value_parser = number(0..=COUNT_MAX))]
    pub ban_above: Option<u32>,

    /// Durations of the first, second, … ban of a key, 1ms to 30days each; the last one applies to
    /// all further bans [default: --window]
    #[arg(long, value_name = "DURATION,…", requires = "ban_above")]
    #[arg(value_parser = length, value_delimiter = ',')]
    pub ban_for: Vec<Millis>,
}

/// Names of the flags, for commands whose flags conflict with them.
pub const RULE_FLAGS: [&str; 7] =
    ["max", "window", "algorithm", "burst", "warn_above", "ban_above", "ban_for"];

/// Algorithms that count calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AlgorithmName {
    /// At most max calls in any interval of the window's length
    SlidingWindow,
    /// Windows that start with their first call
    FixedWindow,
    /// Windows aligned to the clock: whole seconds that divide a day, or 1 to 365 whole days
    CalendarWindow,
    /// Refills evenly at max calls per window, and allows bursts
    TokenBucket,
}

impl From<AlgorithmName> for Algorithm {
    fn from(name: AlgorithmName) -> Algorithm {
        match name {
            AlgorithmName::SlidingWindow => Algorithm::SlidingWindow,
            AlgorithmName::FixedWindow => Algorithm::FixedWindow,
            AlgorithmName::CalendarWindow => Algorithm::CalendarWindow,
            AlgorithmName::TokenBucket => Algorithm::TokenBucket,
        }
    }
}

impl From<AlgorithmName> for pb::Algorithm {
    fn from(name: AlgorithmName) -> pb::Algorithm {
        match name {
            AlgorithmName::SlidingWindow => pb::Algorithm::SlidingWindow,
            AlgorithmName::FixedWindow => pb::Algorithm::FixedWindow,
            AlgorithmName::CalendarWindow => pb::Algorithm::CalendarWindow,
            AlgorithmName::TokenBucket => pb::Algorithm::TokenBucket,
        }
    }
}

fn action(action: TierAction) -> pb::TierAction {
    match action {
        TierAction::Warn => pb::TierAction::Warn,
        TierAction::Throttle => pb::TierAction::Throttle,
        TierAction::Ban => pb::TierAction::Ban,
    }
}

impl RuleFlags {
    /// Returns the maximum number of calls in a window.
    pub fn max(&self) -> u32 {
        self.max.or(self.ban_above).unwrap_or(MAX)
    }

    /// Builds the rule. The error names flags that contradict each other.
    pub fn spec(&self) -> Result<RuleSpec, String> {
        if self.warn_above.zip(self.ban_above).is_some_and(|(warn, ban)| warn >= ban) {
            return Err("--warn-above must be below --ban-above".to_owned());
        }
        if self.warn_above.is_some_and(|above| above >= self.max()) {
            return Err(format!("--warn-above must be below --max, {}", self.max()));
        }
        let limit = LimitSpec {
            name: Vec::new(),
            max: Some(self.max().into()),
            window: Some(self.window),
            algorithm: Some(self.algorithm.into()),
            burst: self.burst.map(u64::from),
        };
        let spec = RuleSpec { limits: vec![limit], tiers: self.tiers(), ..RuleSpec::default() };
        match spec.clone().build() {
            Ok(_) => Ok(spec),
            Err(violations) => {
                Err(violations.iter().map(explain).collect::<Vec<String>>().join("; "))
            }
        }
    }

    /// Builds the rule that a call is checked against. The error names flags that contradict each
    /// other.
    pub fn against(&self) -> Result<Against, String> {
        let RuleSpec { limits, tiers, .. } = self.spec()?;
        let wire = |length: Millis| time::wire(length.duration());
        let limit = |limit: LimitSpec| pb::Limit {
            max: limit.max,
            window: limit.window.map(wire),
            algorithm: pb::Algorithm::from(self.algorithm).into(),
            burst: limit.burst,
            ..pb::Limit::default()
        };
        let tier = |tier: TierSpec| pb::Tier {
            above: tier.above,
            action: tier.action.map_or(pb::TierAction::Unspecified, action).into(),
            ban_durations: tier.ban_durations.into_iter().map(wire).collect(),
        };
        Ok(Against::Rule(pb::Rule {
            limits: limits.into_iter().map(limit).collect(),
            tiers: tiers.into_iter().map(tier).collect(),
            ..pb::Rule::default()
        }))
    }

    fn tiers(&self) -> Vec<TierSpec> {
        let tier = |above: u32, action| TierSpec {
            above: Some(above.into()),
            action: Some(action),
            ban_durations: Vec::new(),
        };
        let mut tiers: Vec<TierSpec> =
            self.warn_above.map(|above| tier(above, TierAction::Warn)).into_iter().collect();
        if let Some(above) = self.ban_above {
            // A separate tier, so that the first call above `max` causes a notice.
            if above > self.max() {
                tiers.push(tier(self.max(), TierAction::Throttle));
            }
            tiers.push(TierSpec {
                ban_durations: self.ban_for.clone(),
                ..tier(above, TierAction::Ban)
            });
        }
        tiers
    }
}

/// Describes a violation with the names of the flags.
fn explain(bad: &Violation) -> String {
    let (field, description) = (bad.field.as_str(), bad.description.as_str());
    if field == "limits[0].algorithm" {
        return "--warn-above and --ban-above need a window, which --algorithm token-bucket does \
            not have"
            .to_owned();
    }
    match field.strip_prefix("limits[0].") {
        Some(flag) => format!("--{flag} {}", description.replace("TOKEN_BUCKET", "token-bucket")),
        None if field.ends_with("ban_durations") => format!("--ban-for {description}"),
        None => format!("{field} {description}"),
    }
}

/// Parses the URL of a server; the scheme defaults to http.
pub fn server(text: &str) -> Result<String, String> {
    let url = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    check_url(&url).map(|()| url)
}

/// Parses the name of a namespace; the empty string is the default one.
fn namespace(text: &str) -> Result<String, String> {
    Namespace::parse(text.as_bytes())?;
    Ok(text.to_owned())
}

/// Parses a name as the API accepts it.
pub fn name(text: &str) -> Result<String, String> {
    let name = Name::parse(Bytes::copy_from_slice(text.as_bytes()))?;
    Ok(name.as_str().to_owned())
}

/// Parses a prefix of names; it may be empty.
fn prefix(text: &str) -> Result<String, String> {
    if text.is_empty() { Ok(String::new()) } else { name(text) }
}

/// Parses a duration as the API accepts it, rounded up to milliseconds.
pub fn length(text: &str) -> Result<Millis, String> {
    within(text, LENGTH_MAX)
}

/// Parses the length of a window. The rule rejects more than 30 days unless it is a calendar
/// window.
fn window(text: &str) -> Result<Millis, String> {
    let window = within(text, CALENDAR_MAX);
    window.map_err(|_| "expected 1ms to 30days, or up to 365days for a calendar window".to_owned())
}

fn within(text: &str, most: Millis) -> Result<Millis, String> {
    let length = between(text, LENGTH_MIN.duration(), most.duration())?;
    Ok(Millis(length.as_nanos().div_ceil(1_000_000) as u64))
}

/// Returns a parser for durations in this range.
pub fn duration(
    least: Duration,
    most: Duration,
) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync + 'static {
    move |text| between(text, least, most)
}

/// Returns a parser for whole numbers in this range.
pub fn number(range: RangeInclusive<u32>) -> RangedI64ValueParser<u32> {
    value_parser!(u32).range(i64::from(*range.start())..=i64::from(*range.end()))
}

/// Parses a duration and checks its range.
pub fn between(text: &str, least: Duration, most: Duration) -> Result<Duration, String> {
    let parsed = humantime::parse_duration(text);
    parsed.ok().filter(|length| (least..=most).contains(length)).ok_or_else(|| {
        let (least, most) = (humantime::format_duration(least), humantime::format_duration(most));
        format!("expected a duration such as `5s`, {least} to {most}")
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use clap::Command;

    use super::*;

    /// Parses flags separated by spaces.
    pub(crate) fn parse<T: Args>(flags: &str) -> Result<T, String> {
        let command = T::augment_args(Command::new("tollgate").no_binary_name(true));
        let matches = command.try_get_matches_from(flags.split_whitespace());
        let parsed = matches.and_then(|matches| T::from_arg_matches(&matches));
        parsed.map_err(|error| error.to_string())
    }

    fn spec(flags: &str) -> Result<RuleSpec, String> {
        parse::<RuleFlags>(flags)?.spec()
    }

    #[test]
    fn a_ban_above_the_max_leaves_the_max_in_force() {
        let levels = |flags: &str| -> Vec<_> {
            let tiers = spec(flags).expect("a rule").tiers;
            tiers.iter().map(|tier| (tier.above, tier.action)).collect()
        };
        let warn = (Some(5), Some(TierAction::Warn));
        let throttle = (Some(10), Some(TierAction::Throttle));
        let ban = |above| (Some(above), Some(TierAction::Ban));
        assert_eq!(levels(""), []);
        assert_eq!(levels("--warn-above 5"), [warn]);
        assert_eq!(levels("--max 10 --ban-above 20"), [throttle, ban(20)]);
        assert_eq!(levels("--max 10 --warn-above 5 --ban-above 10"), [warn, ban(10)]);
        // Without --max, the ban level is the limit.
        assert_eq!(levels("--warn-above 5 --ban-above 20"), [warn, ban(20)]);
    }

    #[test]
    fn errors_name_the_flags() {
        for (flags, part) in [
            ("--warn-above 10", "--warn-above must be below --max, 10"),
            ("--warn-above 5 --ban-above 5", "--warn-above must be below --ban-above"),
            ("--burst 5", "--burst is for token-bucket only"),
            ("--algorithm calendar-window --window 7s", "--window must be whole seconds"),
            ("--algorithm token-bucket --ban-above 20", "--ban-above need a window"),
            ("--algorithm token-bucket --max 1 --window 30days --burst 100", "--burst must fill"),
            ("--algorithm token-bucket --max 1000000000", "--max must be 0 to 90000000"),
        ] {
            let error = spec(flags).expect_err(flags);
            assert!(error.contains(part), "{flags}: {error}");
        }
    }

    #[test]
    fn lengths_are_whole_milliseconds_rounded_up() {
        assert_eq!(length("1500us"), Ok(Millis(2)));
        assert!(length("999us").is_err() && length("31days").is_err());
    }

    #[test]
    fn a_server_without_a_scheme_is_plain_http() {
        assert_eq!(server("tollgate:50051"), Ok("http://tollgate:50051".to_owned()));
    }
}
