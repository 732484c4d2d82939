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
    prometheus_samples::{DAYS, UNTIL, past, past_of_kube_prometheus_stack},
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

/// Checks the gain, the number of nodes, and the pods at risk.
fn begins_with_its_headline(text: &str) {
    let mut headline = text.lines();
    let line = headline.next().unwrap_or_default();
    assert!(
        line.contains(" cores and 0.0 GiB ") && line.contains(" 2 pools"),
        "{text}"
    );
    let line = headline.next().unwrap_or_default();
    assert!(
        line.starts_with("Pool blue, 1 node: 1") && line.contains(" 0 of 10 pods "),
        "{text}"
    );
}

fn queries_without_an_answer_are_named(cli: &Path, of_server: &[&str]) {
    let no_series = advise(cli, &[of_server, &["--query", "node-cpu=absent_metric"]].concat());
    assert!(
        no_series.as_ref().is_err_and(|error| {
            let facts = [
                "node-cpu has no series",
                "label \"node\"",
                "absent_metric",
                "--query node-cpu=PROMQL",
            ];
            facts.iter().all(|fact| error.contains(fact))
        }),
        "{no_series:?}"
    );
    let bad_query = advise(cli, &[of_server, &["--query", "node-cpu=sum("]].concat());
    assert!(
        bad_query
            .as_ref()
            .is_err_and(|error| error.contains("node-cpu: ") && error.contains(": bad_data")),
        "{bad_query:?}"
    );
}

#[tokio::test]
async fn advice_from_prometheus_history_has_a_ratio_per_pool() {
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
        text.lines()
            .any(|line| line.starts_with("hot-1 (red): ") && line.contains(" 0.91 ")),
        "{text}"
    );
    assert!(!text.contains("quiet-1 (blue)"), "{text}");
    begins_with_its_headline(&text);
    assert!(!text.contains("has no series"), "{text}");

    let protected = json(&cli, &["--from", &directory, "--lo", "0.50"]);
    // 30 of 31.5 cores are requested: the ratio does not fall below bound requests.
    assert_eq!(pool(&protected, "all")["ratio_p5_cents"], 96, "{protected}");
    queries_without_an_answer_are_named(&cli, &of_server);
}

#[tokio::test]
async fn an_unreachable_server_is_named_by_its_query() {
    let cli = programs().await.cli;
    let printed = advise(&cli, &["--prometheus", "http://127.0.0.1:1"]).expect_err("no server listens there");
    assert!(
        printed.starts_with("error: node-cpu: ") && printed.contains("refused"),
        "{printed}"
    );
}

#[tokio::test]
async fn kube_prometheus_stack_as_it_ships_gives_the_same_advice() {
    let cli: PathBuf = programs().await.cli;
    let (until, days) = (UNTIL.to_string(), DAYS.to_string());
    let flags = ["--until", &until, "--days", &days, "--pool-label", "label_pool"];
    let mut pools = Vec::new();
    for samples in [past(), past_of_kube_prometheus_stack()] {
        let server = Prometheus::over(samples).await;
        let advice = json(&cli, &[&["--prometheus", &server.url], &flags[..]].concat());
        assert_eq!(advice["empty_queries"], Value::Array(Vec::new()), "{advice}");
        pools.push(advice["pools"].clone());
        if pools.len() == 2 {
            let rss = "--query=pod-memory-anonymous=absent_metric{a=\"b\"}";
            let text = advise(&cli, &[&["--prometheus", &server.url, rss], &flags[..]].concat());
            let text = text.expect("an answer");
            assert!(
                text.lines().any(|line| line.starts_with("pod-memory-anonymous ")
                    && line.ends_with(": absent_metric{a=\"b\"}")),
                "{text}"
            );
        }
    }
    assert_eq!(pools[0], pools[1]);
}
