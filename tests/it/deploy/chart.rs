//! `deploy/helm/tollgate`: rendered by Helm, checked by kubernetes-validate and kube-score.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    deploy::{output, succeed, tool},
    support::process::{TempFile, TempFolder, tollgate},
};

const CHART: &str = "deploy/helm/tollgate";
const KUBERNETES: &str = "1.32";

/// Values with every part of the chart.
const EVERYTHING: &str = "
engine: redis
replicaCount: 3
redis: {existingSecret: tollgate-redis}
existingConfigSecret: tollgate-config
tls: {existingSecret: tollgate-tls, clientAuth: required}
metrics:
  enabled: true
  serviceMonitor: {enabled: true, tokenSecret: prometheus-token}
  rules: {enabled: true}
  dashboards: {enabled: true}
networkPolicy:
  metricsFrom: [{namespaceSelector: {matchLabels: {name: monitoring}}}]
";

struct Helm {
    program: PathBuf,
    /// Helm's caches.
    home: TempFolder,
}

impl Helm {
    fn new() -> Option<Helm> {
        Some(Helm { program: tool("helm")?, home: TempFolder::new() })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).env("HOME", self.home.path());
        command
    }

    /// Renders the chart with these values, without the notes about linked files.
    fn render(&self, values: &str) -> Result<String, String> {
        let file = TempFile::new(values);
        let version = ["--kube-version", KUBERNETES, "--values", file.path()];
        let mut command = self.command(&[&["template", "test", CHART][..], &version].concat());
        let output = command.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
        if output.status.success() {
            Ok(String::from_utf8(output.stdout).unwrap())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }
}

/// Returns the rendered resources, in a file for the tools.
fn file(folder: &Path, rendered: &str) -> PathBuf {
    fs::create_dir_all(folder).unwrap();
    let file = folder.join("rendered.yaml");
    fs::write(&file, rendered).unwrap();
    file
}

const EMBEDDED: &str = "engine: embedded\nreplicaCount: 1\n";

#[test]
fn the_chart_has_no_finding() {
    let Some(helm) = Helm::new() else { return };
    succeed(&mut helm.command(&["lint", "--strict", CHART]));
    let (validate, score) = (tool("kubernetes-validate"), tool("kube-score"));
    for values in ["{}", EMBEDDED, EVERYTHING] {
        let rendered = helm.render(values).unwrap();
        let file = file(helm.home.path(), &rendered);
        if let Some(validate) = &validate {
            let mut command = Command::new(validate);
            let found = succeed(command.args(["--strict", "-k", KUBERNETES]).arg(&file));
            // It has no schemas of Prometheus's own resources.
            let unknown = found.lines().filter(|line| line.contains("WARN"));
            unknown.for_each(|line| assert!(line.contains("monitoring.coreos.com"), "{line}"));
        }
        if let Some(score) = &score {
            let version = format!("v{KUBERNETES}");
            let mut command = Command::new(score);
            command.args(["score", "--kubernetes-version", &version, "--exit-one-on-warning"]);
            succeed(command.arg(&file));
        }
    }
}

#[test]
fn wrong_values_are_refused_with_a_reason() {
    let Some(helm) = Helm::new() else { return };
    for (values, reason) in [
        ("engine: embedded", "set replicaCount to 1"),
        ("redis: {url: ''}", "needs redis.url or redis.existingSecret"),
        ("metrics: {enabled: true}", "needs existingConfigSecret"),
        ("metrics: {serviceMonitor: {enabled: true}}", "needs metrics.enabled"),
        ("tls: {clientAuth: required}", "needs tls.existingSecret"),
        ("config: 'x = 1'\nexistingConfigSecret: s", "not both"),
        // The schema.
        ("engine: memory", "engine"),
        ("replicaCount: 0", "replicaCount"),
        ("replicas: 3", "replicas"),
        ("redis: {url: 'http://redis'}", "url"),
    ] {
        let error = helm.render(values).expect_err(values);
        assert!(error.contains(reason), "{values}: {error}");
    }
}

/// The server takes the file and the flags of the rendered pod.
#[test]
fn the_server_takes_the_rendered_configuration() {
    let Some(helm) = Helm::new() else { return };
    let values = "config: |\n  [[pool]]\n  match = \"ar:*\"\n  capacity = 20\n";
    let rendered = helm.render(values).unwrap();
    let (_, block) = rendered.split_once("tollgate.toml: |\n").unwrap();
    let lines = block.lines().take_while(|line| line.is_empty() || line.starts_with("    "));
    let text: Vec<&str> = lines.map(str::trim).collect();
    assert!(text.contains(&"replicas = 2") && text.contains(&"capacity = 20"), "{text:?}");
    let file = TempFile::new(&text.join("\n"));
    succeed(&mut tollgate(&["check-config", file.path()]));

    let (_, help) = output(&mut tollgate(&["serve", "--help"]));
    for values in [EMBEDDED, EVERYTHING] {
        let rendered = helm.render(values).unwrap();
        let (_, arguments) = rendered.split_once("- serve\n").unwrap();
        let flags = arguments.lines().map_while(|line| line.trim().strip_prefix("- --"));
        let flags: Vec<&str> = flags.map(|flag| flag.split('=').next().unwrap()).collect();
        assert!(flags.len() >= 4, "{flags:?}");
        for flag in flags {
            let is_admin = flag == "admin" && !super::queries::has_admin();
            assert!(is_admin || help.contains(&format!("--{flag} ")), "--{flag}");
        }
    }
}
