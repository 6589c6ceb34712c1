use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    fleet: FleetOptions,
}

fn parse(flags: &[&str]) -> Result<FleetOptions, String> {
    let arguments = ["fleet"].iter().chain(flags);
    Cli::try_parse_from(arguments).map(|cli| cli.fleet).map_err(|error| error.to_string())
}

#[test]
fn shares_are_fractions_or_percents() {
    for (text, value) in [("0", 0.0), ("0.25", 0.25), ("1", 1.0), ("10%", 0.1), ("100 %", 1.0)] {
        assert_eq!(share(text), Ok(value));
    }
    for bad in ["", "%", "ten", "-0.1", "1.01", "10", "101%", "NaN", "inf"] {
        assert!(share(bad).is_err(), "{bad}");
    }
}

#[test]
fn errors_name_the_flag() {
    for (flag, value) in [
        ("--server", "https://tollgate:443"),
        ("--pool", ""),
        ("--devices", "0"),
        ("--devices", "100001"),
        ("--report-interval", "1ms"),
        ("--task-duration", "5s..2s"),
        ("--lease", "99ms"),
        ("--capacity", "1000001"),
        ("--silent", "11"),
        ("--late", "-5%"),
        ("--crashes", "x"),
        ("--duplicates", "2"),
        ("--duration", "0s"),
        ("--seed", "1.5"),
    ] {
        let error = parse(&[&format!("{flag}={value}")]).expect_err(flag);
        assert!(error.contains(flag), "{flag} {value}: {error}");
    }
}

#[test]
fn options_of_one_mode_are_not_taken_in_the_other() {
    for flags in [
        "--pool=x",
        "--devices=5",
        "--report-interval=1s",
        "--task-duration=1s",
        "--lease=1s",
        "--capacity=1",
        "--silent=1",
        "--late=1",
        "--crashes=1",
        "--duplicates=1",
    ] {
        for mode in ["--rate", "--sale"] {
            let error = parse(&[mode, flags]).expect_err(flags);
            let flag = flags.split('=').next().unwrap_or_default();
            assert!(error.contains("cannot be used with") && error.contains(flag), "{error}");
        }
    }
    for modes in [["--rate", "--sale"], ["--rate", "--queued"], ["--sale", "--queued"]] {
        assert!(parse(&modes).is_err(), "{modes:?}");
    }
    for flags in ["--tasks=5", "--fail=1", "--max-attempts=5", "--payload=1"] {
        let error = parse(&[flags]).expect_err(flags);
        assert!(error.contains("required") && error.contains("--queued"), "{error}");
    }
    for flags in ["--items=5", "--buyers=5", "--rush=1s", "--hold=1s", "--never-pay=1"] {
        let error = parse(&[flags]).expect_err(flags);
        assert!(error.contains("required") && error.contains("--sale"), "{error}");
    }
    for flags in [
        "--keys=5",
        "--hits=5",
        "--volley=5",
        "--patient",
        "--max=5",
        "--window=1s",
        "--algorithm=fixed-window",
        "--burst=5",
        "--warn-above=5",
        "--ban-above=5",
    ] {
        let error = parse(&[flags]).expect_err(flags);
        assert!(error.contains("required") && error.contains("--rate"), "{error}");
    }
    let both = parse(&["--rate", "--seed=1", "--duration=1s", "--max=5"]).expect("parses");
    assert_eq!(both.check(), Ok(()));
}

#[test]
fn shares_that_exclude_each_other_have_room_for_all() {
    let most = ["--silent=70%", "--late=20%", "--crashes=10%", "--duplicates=100%"];
    assert_eq!(parse(&most).expect("parses").check(), Ok(()));
    let over = parse(&["--silent=70%", "--late=31%"]).expect("parses").check();
    let error = over.expect_err("more than all devices");
    assert!(error.contains("--silent") && error.contains("101%"), "{error}");
}
