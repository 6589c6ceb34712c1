use clap::{Command, FromArgMatches};

use super::*;

/// Parses and checks flags separated by spaces.
pub(crate) fn parse(flags: &str) -> Result<FleetOptions, String> {
    let command = FleetOptions::augment_args(Command::new("fleet").no_binary_name(true));
    let matches = command.try_get_matches_from(flags.split_whitespace());
    let options = matches.and_then(|matches| FleetOptions::from_arg_matches(&matches));
    let options = options.map_err(|error| error.to_string())?;
    options.check().map(|()| options)
}

#[test]
fn shares_are_fractions_or_percents() {
    for (text, value) in [("0", 0.0), ("0.25", 0.25), ("1", 1.0), ("10%", 0.1), ("100 %", 1.0)] {
        assert_eq!(parse_share(text), Ok(value));
    }
    for bad in ["", "%", "ten", "-0.1", "1.01", "10", "101%", "NaN", "inf"] {
        assert!(parse_share(bad).is_err(), "{bad}");
    }
}

#[test]
fn errors_name_the_flag() {
    for (mode, flags) in [
        (
            "",
            "--server=ftp://tollgate --pool= --devices=0 --devices=100001 --lease=99ms \
             --report-interval=1ms --task-duration=5s..2s --capacity=1000001 --silent=11 \
             --late=-5% --crashes=x --duplicates=2 --duration=0s --seed=1.5",
        ),
        (
            "--queued",
            "--tasks=0 --tasks=1000001 --fail=2 --max-attempts=0 --max-attempts=1001 \
             --payload=65537 --silent=101% --silent=91%",
        ),
        ("--rate", "--keys=0 --keys=10001 --hits=-1 --hits=NaN --volley=0 --burst=5"),
        (
            "--sale",
            "--items=0 --items=1000001 --buyers=0 --buyers=100001 --rush=0s --hold=0ms \
             --never-pay=11 --pay-late=-1% --cancel=x --repeat=2 --pay-late=91%",
        ),
    ] {
        for flag in flags.split_whitespace() {
            let error = parse(&format!("{mode} {flag}")).expect_err(flag);
            let name = flag.split('=').next().unwrap_or_default();
            assert!(error.contains(name), "{flag}: {error}");
        }
    }
    for (flags, part) in [
        ("--rate --hits 0", "--volley"),
        ("--rate --volley-every 1s", "--volley"),
        ("--rate --keys 1000 --volley 21", "--keys times --volley"),
        ("--rate --max 10 --warn-above 10", "--warn-above"),
        ("--silent=70% --late=31%", "--silent, --late and --crashes"),
        ("--silent=70% --late=31%", "101%"),
    ] {
        let error = parse(flags).expect_err(flags);
        assert!(error.contains(part), "{flags}: {error}");
    }
    assert!(parse("--silent=70% --late=20% --crashes=10% --duplicates=100%").is_ok());
    assert!(parse("--sale --never-pay 70% --pay-late 20% --cancel 10% --repeat 100%").is_ok());
}

#[test]
fn options_of_one_mode_are_refused_in_another() {
    let devices = "--pool=x --devices=5 --report-interval=1s --task-duration=1s --lease=1s \
        --capacity=1 --silent=1 --late=1 --crashes=1 --duplicates=1";
    let callers = "--keys=5 --hits=5 --volley=5 --patient --max=5 --window=1s --burst=5 \
        --algorithm=fixed-window --warn-above=5 --ban-above=5";
    for (mode, flags, part) in [
        ("--rate", devices, "cannot be used with"),
        ("--sale", devices, "cannot be used with"),
        ("--rate", "--sale --queued", "cannot be used with"),
        ("--sale", "--queued", "cannot be used with"),
        ("", "--tasks=5 --fail=1 --max-attempts=5 --payload=1", "--queued"),
        ("", "--items=5 --buyers=5 --rush=1s --hold=1s --never-pay=1", "--sale"),
        ("", callers, "--rate"),
    ] {
        for flag in flags.split_whitespace() {
            let error = parse(&format!("{mode} {flag}")).expect_err(flag);
            assert!(error.contains(part), "{mode} {flag}: {error}");
        }
    }
    assert!(parse("--rate --seed=1 --duration=1s --max=5").is_ok());
}

#[test]
fn defaults_depend_on_the_mode() {
    let queued = parse("--queued").expect("good");
    assert_eq!((queued.device.devices, queued.queue.tasks), (100, 1000));
    assert_eq!(queued.device.lease, Duration::from_millis(500));
    assert_eq!((queued.device.silent, queued.device.duplicates), (0.05, 0.05));
    let device = parse("--queued --lease 2s --silent 0").expect("good").device;
    assert_eq!((device.lease, device.silent), (Duration::from_secs(2), 0.0));
    let sale = parse("--sale").expect("good").sale_options;
    assert_eq!((sale.items, sale.buyers), (50, 10_000));
    assert_eq!(parse("--rate").expect("good").callers.rule.window.0, 1000);
    let callers = parse("--rate --window 1m --keys 3").expect("good").callers;
    assert_eq!(callers.sustained(), 0.5);
}

#[test]
fn calls_in_flight_are_bounded_for_any_number_of_keys() {
    let in_flight = |flags: &str| parse(flags).expect(flags).callers.in_flight();
    assert_eq!(in_flight("--rate"), 16);
    assert_eq!(in_flight("--rate --volley 100"), 100);
    assert_eq!(in_flight("--rate --keys 5000"), 4);
    assert_eq!(in_flight("--rate --keys 10000 --volley 2"), 2);
}

#[test]
fn each_algorithm_permits_its_own_number_of_calls() {
    for (flags, permitted) in [
        ("--max 10 --ban-above 4", 4),
        ("--max 10 --algorithm fixed-window", 20),
        ("--max 10 --algorithm token-bucket --burst 40", 50),
        ("--max 0 --algorithm token-bucket --burst 40", 0),
    ] {
        let options = parse(&format!("--rate {flags}")).expect(flags);
        assert_eq!(options.callers.permitted(), permitted, "{flags}");
    }
}
