//! Tests of `kubectl headroom advise` with a real Prometheus server: figures per pool, the same figures from saved
//! answers and from series that are stored twice, and errors where the server or a series is missing or nodes have
//! impossible amounts.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use e2e::{
    built::programs,
    prometheus::{Prometheus, Samples},
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
        printed.starts_with("error: node-cpu-capacity: ") && printed.contains("refused"),
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

#[tokio::test]
async fn series_that_are_stored_twice_count_once_and_a_selector_separates_clusters() {
    let cli: PathBuf = programs().await.cli;
    let (until, days) = (UNTIL.to_string(), DAYS.to_string());
    let flags = ["--until", &until, "--days", &days, "--pool-label", "label_pool"];
    let once = Prometheus::over(past()).await;
    let expected = json(&cli, &[&["--prometheus", &once.url], &flags[..]].concat());

    // Two scrape jobs store each series of two clusters with the same node names.
    let twice = |samples: Samples, cluster: &str| {
        let samples = samples.labelled(&format!("cluster={cluster:?}"));
        samples
            .labelled("endpoint=\"a\"")
            .and(&samples.labelled("endpoint=\"b\""))
    };
    let south = twice(past_of_kube_prometheus_stack(), "south");
    let server = Prometheus::over(twice(past(), "north").and(&south)).await;
    let of_server = [&["--prometheus", &server.url], &flags[..]].concat();
    let refused = advise(&cli, &of_server).expect_err("two clusters");
    for part in [
        "node \"hot-1\"",
        "label cluster is \"north\" and \"south\"",
        "--selector cluster=north",
    ] {
        assert!(refused.contains(part), "{refused}");
    }
    for cluster in ["cluster=north", "cluster=south", "cluster!~nor.*"] {
        let advice = json(&cli, &[&of_server[..], &["--selector", cluster]].concat());
        assert_eq!(advice["pools"], expected["pools"], "{cluster}");
        assert_eq!(advice["left_out"], Value::Array(Vec::new()), "{advice}");
    }
}

#[tokio::test]
async fn nodes_with_impossible_amounts_are_reported_and_left_out() {
    let cli: PathBuf = programs().await.cli;
    let (until, days) = (UNTIL.to_string(), DAYS.to_string());
    let server = Prometheus::over(past()).await;
    let of_server = ["--prometheus", &server.url, "--until", &until, "--days", &days];
    let use_twice = "node-cpu=2 * sum by (node) (rate(container_cpu_usage_seconds_total{id=\"/\"}[2m]))";
    let flags = [&of_server[..], &["--query", use_twice]].concat();
    let advice = json(&cli, &flags);
    assert_eq!(advice["pools"][0]["nodes"], 1, "{advice}");
    let left_out = &advice["left_out"][0];
    assert_eq!(
        (
            &left_out["name"],
            &left_out["excess"],
            &left_out["capacity_milli"]
        ),
        (&Value::from("hot-1"), &Value::from("use"), &Value::from(32_000)),
        "{left_out}"
    );
    let text = advise(&cli, &flags).expect("an answer");
    assert!(
        text.contains("hot-1: use of cpu above its capacity in "),
        "{text}"
    );

    let requests_twice = "pod-cpu-request=2.2 * sum by (node, namespace, pod) \
                          (kube_pod_container_resource_requests{resource=\"cpu\"})";
    let none = advise(&cli, &[&of_server[..], &["--query", requests_twice]].concat()).expect_err("no node");
    for part in [
        "each of 2 nodes",
        "requests of cpu above twice its capacity",
        "--query",
        "--selector",
    ] {
        assert!(none.contains(part), "{none}");
    }
}
