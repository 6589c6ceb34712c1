//! Domains, built from files.

use std::{collections::BTreeMap, fmt::Write, sync::Arc};

use super::{
    counters::RuleCounters,
    name::policy_name,
    node::{Found, RuleNode},
    rule::{EnvoyRule, counting},
    settings::{Counting, EnvoySettings},
    unit::RateUnit,
    wildcard::Wildcard,
    yaml::{self, DescriptorEntry, RateLimitEntry},
};
use crate::{
    names::Name,
    rate::{Algorithm, BUCKET_MAX, LENGTH_MAX},
};

/// Maximum number of rules in all domains.
const RULES_MAX: usize = 1_000_000;

/// A file with rules.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RuleFile {
    /// The name, for errors.
    pub name: String,
    /// The contents, or why they cannot be read.
    pub text: Result<String, String>,
}

/// The rules of all domains.
#[derive(Debug, Default)]
pub struct EnvoyRules {
    domains: BTreeMap<Box<[u8]>, Domain>,
    /// The settings of all domains.
    pub settings: EnvoySettings,
    /// Whether the service has rules, because a folder was given.
    pub is_on: bool,
}

/// A domain.
#[derive(Debug)]
pub struct Domain {
    /// The name.
    pub name: Box<str>,
    /// How descriptors are counted.
    pub counting: Counting,
    /// The policy of its counters.
    pub policy: Name,
    /// The name that permissions of callers apply to. It is always the policy for counting `each`,
    /// so that changing `counting` locks no caller out.
    pub permission: Name,
    pub(super) root: RuleNode,
}

impl EnvoyRules {
    /// Reads the rules of all files. Fails at the first error, which names file and key.
    pub fn new(files: &[RuleFile], settings: EnvoySettings) -> Result<EnvoyRules, String> {
        let mut rules = EnvoyRules { settings, is_on: true, ..EnvoyRules::default() };
        let mut left = RULES_MAX;
        for file in files {
            let text = file.text.as_ref().map_err(|error| format!("{}: {error}", file.name))?;
            let added = rules.add(text, &mut left);
            added.map_err(|error| format!("{}: {error}", file.name))?;
        }
        Ok(rules)
    }

    fn add(&mut self, text: &str, left: &mut usize) -> Result<(), String> {
        let root = yaml::parse(text)?;
        if root.domain.is_empty() {
            return Err("domain: is required".to_owned());
        }
        let settings = &self.settings;
        let key = root.domain.as_bytes();
        let counting = root.counting.unwrap_or_default();
        if let Some(domain) = self.domains.get(key) {
            if !settings.merge_domains {
                return Err(format!(
                    "domain \"{}\": another file has the same domain",
                    root.domain
                ));
            }
            if domain.counting != counting {
                let expected = "all files of a domain must have the same";
                return Err(format!("domain \"{}\": counting: {expected}", root.domain));
            }
        } else {
            let domain = Domain::new(&root.domain, counting)?;
            self.domains.insert(key.into(), domain);
        }
        let Some(domain) = self.domains.get_mut(key) else { return Ok(()) };
        let domain_bytes = root.domain.len();
        let mut loader = RuleLoader { settings, counting, domain: domain_bytes, left };
        loader.load(&mut domain.root, &root.domain, root.descriptors)
    }

    /// Finds a domain.
    pub fn domain(&self, name: &[u8]) -> Option<&Domain> {
        self.domains.get(name)
    }

    /// Returns the policies of all domains.
    pub fn policies(&self) -> impl Iterator<Item = &Name> {
        self.domains.values().map(|domain| &domain.policy)
    }

    /// Returns the numbers of domains and of rules.
    pub fn counts(&self) -> (usize, usize) {
        (self.domains.len(), self.lines().len())
    }

    /// Returns all rules as text, one per line, in the format of envoyproxy/ratelimit.
    pub fn dump(&self) -> String {
        self.lines().concat()
    }

    fn lines(&self) -> Vec<String> {
        fn add(node: &RuleNode, lines: &mut Vec<String>) {
            if let Some(rule) = &node.rule {
                let mut line = String::new();
                let unit = if rule.unlimited { "UNKNOWN" } else { rule.unit.name() };
                // Writing to a String cannot fail.
                let _ = writeln!(
                    line,
                    "{}: unit={unit} requests_per_unit={}, shadow_mode: {}, quota_mode: {}",
                    rule.key, rule.requests_per_unit, rule.shadow_mode, rule.quota_mode
                );
                lines.push(line);
            }
            node.children.values().for_each(|child| add(child, lines));
        }
        let mut lines = Vec::new();
        self.domains.values().for_each(|domain| add(&domain.root, &mut lines));
        lines.sort();
        lines
    }
}

impl Domain {
    /// Creates a domain without rules. The error says what is wrong with the name.
    fn new(name: &str, counting: Counting) -> Result<Domain, String> {
        let policy = |counting| {
            policy_name(name.as_bytes(), counting).map_err(|error| {
                format!("domain \"{}\": with its prefix, {error}", name.escape_debug())
            })
        };
        Ok(Domain {
            name: name.into(),
            counting,
            policy: policy(counting)?,
            permission: policy(Counting::Each)?,
            root: RuleNode::default(),
        })
    }

    /// Finds the rule of a descriptor, by its entries; `None` if no rule applies.
    pub fn find<'n, 'e>(
        &'n self,
        entries: impl Iterator<Item = (&'e [u8], &'e [u8])>,
    ) -> Option<Found<'n>> {
        self.root.find(entries)
    }
}

/// Builds the nodes of a domain.
struct RuleLoader<'l> {
    settings: &'l EnvoySettings,
    counting: Counting,
    /// The length of the domain's name.
    domain: usize,
    /// How many more rules are allowed.
    left: &'l mut usize,
}

impl RuleLoader<'_> {
    fn load(
        &mut self,
        parent: &mut RuleNode,
        path: &str,
        entries: Vec<DescriptorEntry>,
    ) -> Result<(), String> {
        for mut entry in entries {
            if entry.key.is_empty() {
                return Err(format!("{path}: a descriptor has no key"));
            }
            let joined = match entry.value.as_str() {
                "" => entry.key.clone(),
                value => format!("{}_{value}", entry.key),
            };
            let path = format!("{path}.{joined}");
            if parent.children.contains_key(joined.as_bytes()) {
                return Err(format!("{path}: another descriptor has the same key and value"));
            }
            let wildcard = Wildcard::new(joined.as_bytes());
            if entry.share_threshold && wildcard.is_none() {
                return Err(format!("{path}: share_threshold requires a value with *"));
            }
            *self.left = self.left.checked_sub(1).ok_or_else(|| {
                format!("{path}: all files have more than {RULES_MAX} descriptors")
            })?;
            let limit = entry.rate_limit.take();
            let rule = limit.map(|limit| self.rule(&path, limit, &mut entry)).transpose()?;
            let mut node = RuleNode {
                rule: rule.map(Arc::new),
                value_to_metric: entry.value_to_metric,
                share_threshold: entry.share_threshold,
                ..RuleNode::default()
            };
            self.load(&mut node, &path, entry.descriptors)?;
            parent.wildcards.extend(wildcard);
            parent.children.insert(joined.into_bytes().into(), node);
        }
        Ok(())
    }

    fn rule(
        &self,
        path: &str,
        limit: RateLimitEntry,
        entry: &mut DescriptorEntry,
    ) -> Result<EnvoyRule, String> {
        let unit = match (RateUnit::parse(&limit.unit), limit.unlimited) {
            (Some(_), true) => return Err(format!("{path}: an unlimited rule has no unit")),
            (None, true) => RateUnit::Second,
            (Some(unit), false) => unit,
            (None, false) => {
                let expected = "expected second, minute, hour, day, week, month or year";
                return Err(format!("{path}: unit \"{}\": {expected}", limit.unit.escape_debug()));
            }
        };
        for replaced in &limit.replaces {
            if replaced.name.is_empty() || replaced.name == limit.name {
                let expected = "expected the name of another rule";
                return Err(format!("{path}: replaces \"{}\": {expected}", replaced.name));
            }
        }
        let algorithm = limit.algorithm.unwrap_or(Algorithm::CalendarWindow);
        if algorithm != Algorithm::CalendarWindow && unit.length() > LENGTH_MAX {
            return Err(format!("{path}: algorithm: a window of a year is a CALENDAR_WINDOW"));
        }
        if algorithm == Algorithm::TokenBucket && self.counting == Counting::Reports {
            let why = "counts no hits beyond its limit, but reports always count: use a window";
            return Err(format!("{path}: algorithm: TOKEN_BUCKET {why}"));
        }
        if algorithm == Algorithm::TokenBucket && limit.requests_per_unit > BUCKET_MAX {
            return Err(format!(
                "{path}: requests_per_unit: TOKEN_BUCKET has at most {BUCKET_MAX}"
            ));
        }
        Ok(EnvoyRule {
            unit,
            requests_per_unit: limit.requests_per_unit,
            name: limit.name.into(),
            unlimited: limit.unlimited,
            shadow_mode: entry.shadow_mode,
            quota_mode: entry.quota_mode,
            replaces: limit.replaces.into_iter().map(|it| it.name.into()).collect(),
            detailed_metric: entry.detailed_metric,
            metadata: std::mem::take(&mut entry.metadata),
            key: path.into(),
            counters: RuleCounters::lookup(self.domain, path),
            counting: counting(unit, limit.requests_per_unit, algorithm, self.settings),
        })
    }
}
