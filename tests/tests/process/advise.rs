//! Tests of `kubectl headroom advise` with a real Prometheus server: figures per pool, the same figures from saved
//! answers, and errors where the server or a series is missing.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use e2e::{
    built::programs,
    prometheus::Prometheus,
    prometheus_samples::{DAYS, UNTIL, past},
};
use serde_json::Value;

fn advise(cli: &Path, flags: &[&str]) -> Result<String, String> {
    let output = Command::new(cli)
        .env_clear()
        .arg("advise")
        .args(flags)
        .output()
        .expect("run the CLI");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    if output.status.success() {
        Ok(text(output.stdout))
    } else {
        Err(text(output.stderr))
    }
}

fn json(cli: &Path, flags: &[&str]) -> Value {
    let answer = advise(cli, &[flags, &["-o", "json"]].concat()).expect("an answer");
    serde_json::from_str(&answer).expect("JSON")
}

/// The figures of a pool's CPU.
fn pool(advice: &Value, name: &str) -> Value {
    let mut pools = advice["pools"].as_array().expect("pools").iter();
    let found = pools.find(|pool| pool["name"] == name);
    found.expect("the pool")["cpu"].clone()
}

#[tokio::test]
async fn a_servers_past_says_what_each_pool_would_have_been_given() {
    let cli: PathBuf = programs().await.cli;
    let server = Prometheus::over(past()).await;
    let saved = tempfile::tempdir().expect("folder");
    let directory = saved.path().join("past").display().to_string();
    let (until, days) = (UNTIL.to_string(), DAYS.to_string());
    let of_server = [
        "--prometheus",
        &server.url,
        "--until",
        &until,
        "--days",
        &days,
        "--pool-label",
        "label_pool",
    ];

    let asked = json(&cli, &[&of_server[..], &["--save", &directory]].concat());
    // P = 11,025; S = 28,800 - 11,025 + 30,000 - 31,500 = 16,275, and a day to earn the pods' trust: 1.51, or 0.01 less,
    // which the dead band leaves alone.
    let blue = pool(&asked, "blue");
    assert!(
        [150, 151].contains(&blue["ratio_p95_cents"].as_u64().expect("a number")),
        "{blue}"
    );
    assert_eq!(blue["frames"], 2 * 288, "{blue}");
    assert_eq!(blue["missed_ppm"], 0, "{blue}");
    assert!(
        blue["gained_milli"].as_u64().expect("a number") > 10_000,
        "{blue}"
    );
    // P = 29,925; S = -2,625 of 31,500.
    let red = pool(&asked, "red");
    assert_eq!(
        (&red["ratio_p95_cents"], &red["needed_p50_cents"]),
        (&Value::from(100), &Value::from(91)),
        "{red}"
    );

    let again = json(&cli, &["--from", &directory, "--pool-label", "label_pool"]);
    assert_eq!(again["pools"], asked["pools"]);

    let text = advise(&cli, &of_server).expect("an answer");
    assert!(
        text.contains("hot-1 (red): more cpu is advertised than is safe to use: 0.91 of it would be"),
        "{text}"
    );
    assert!(!text.contains("quiet-1 (blue)"), "{text}");

    let protected = json(&cli, &["--from", &directory, "--lo", "0.50"]);
    // 30 of 31.5 cores are requested: what is bound is not taken away.
    assert_eq!(pool(&protected, "all")["ratio_p5_cents"], 96, "{protected}");

    let no_series = advise(
        &cli,
        &[&of_server[..], &["--query", "node-cpu=absent_metric"]].concat(),
    );
    assert!(
        no_series
            .as_ref()
            .is_err_and(|said| said.contains("node-cpu has no series with the label \"node\"")),
        "{no_series:?}"
    );
    let bad_query = advise(&cli, &[&of_server[..], &["--query", "node-cpu=sum("]].concat());
    assert!(
        bad_query
            .as_ref()
            .is_err_and(|said| said.contains("node-cpu: the server refuses: bad_data")),
        "{bad_query:?}"
    );
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_by_its_query() {
    let cli = programs().await.cli;
    let said = advise(&cli, &["--prometheus", "http://127.0.0.1:1"]).expect_err("nobody listens there");
    assert!(
        said.starts_with("error: node-cpu: cannot ask the server: ") && said.contains("refused"),
        "{said}"
    );
}
