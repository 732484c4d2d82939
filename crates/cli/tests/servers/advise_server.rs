//! Tests of `advise` in the built binary with a double of a Prometheus server: credentials, headers, selectors, and nodes
//! of several clusters.

use std::{fs, io::Write as _};

use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{LoopbackServer, error_line, http_answer, kubeconfig, run, text};

const PASSWORD: &str = "HEADROOM_PROMETHEUS_PASSWORD";
/// End of the history, so that the time ranges are known.
const UNTIL: &str = "1700000100";

/// A server without series, except those that `series` returns for a query in the form of the URL.
fn prometheus(series: impl Fn(&str) -> Value + Send + Sync + 'static) -> LoopbackServer {
    LoopbackServer::start(move |head, stream| {
        let body = json!({"status": "success", "data": {"resultType": "matrix", "result": series(head)}});
        stream.write_all(http_answer("200 OK", &body.to_string()).as_bytes())
    })
}

fn empty_prometheus() -> LoopbackServer {
    prometheus(|_| json!([]))
}

/// Runs `advise` against the server and returns its error.
fn advise(url: &str, words: &[&str], variables: &[(&str, &str)]) -> String {
    let words = [
        &["advise", "--days", "2", "--until", UNTIL, "--prometheus", url],
        words,
    ]
    .concat();
    error_line(&words, variables)
}

fn header(server: &LoopbackServer, name: &str) -> Option<String> {
    let heads = server.heads();
    let mut lines = heads.first().unwrap().lines();
    let line = lines.find(|line| line.to_lowercase().starts_with(&format!("{name}: ")))?;
    Some(line[name.len() + 2..].to_owned())
}

#[rstest]
#[case::flag("http://", &["--prometheus-user", "ann"])]
#[case::url("http://ann@", &[])]
#[case::escaped("http://an%6e@", &[])]
fn the_user_comes_from_the_flag_or_the_url(#[case] scheme: &str, #[case] words: &[&str]) {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("password");
    fs::write(&file, "s3cret:x\n").unwrap();
    let with_file = [words, &["--prometheus-password-file", text(&file)]].concat();
    for (words, variables) in [(words, &[(PASSWORD, "s3cret:x")][..]), (&with_file, &[])] {
        let server = empty_prometheus();
        let line = advise(&format!("{scheme}{}", server.addr), words, variables);
        assert!(line.starts_with("node-cpu has no series"), "{line}");
        // ann:s3cret:x
        assert_eq!(
            header(&server, "authorization").as_deref(),
            Some("Basic YW5uOnMzY3JldDp4")
        );
        assert!(!server.heads()[0].contains('@'), "{:?}", server.heads());
    }
}

#[test]
fn a_user_without_a_password_is_refused_with_the_ways_to_set_it() {
    let line = advise("http://127.0.0.1:1", &["--prometheus-user", "ann"], &[]);
    for part in ["\"ann\"", PASSWORD, "--prometheus-password-file"] {
        assert!(line.contains(part), "{line}");
    }
    // The API server authenticates the user of the kubeconfig.
    for flag in ["user", "password-file", "token-file", "ca-file"] {
        let flag = format!("--prometheus-{flag}");
        let output = run(&["advise", "--prometheus-service", "a/b", &flag, "y"], &[]);
        assert_eq!(output.status.code(), Some(2), "{flag}");
    }
}

#[rstest]
#[case::in_the_url("http://ann:s3cret@127.0.0.1:1", "***@127.0.0.1:1")]
#[case::in_a_broken_url("http://ann:s3 cret@host", "***@host")]
#[case::with_another_at("http://ann:s3@cret@host", "***@host")]
fn a_password_on_the_command_line_is_refused_and_not_printed(#[case] url: &str, #[case] shown: &str) {
    for (words, variables) in [
        (&["advise", "--prometheus", url][..], &[][..]),
        (&["advise"], &[("HEADROOM_PROMETHEUS", url)]),
        (
            &["advise", "--help"],
            &[
                ("HEADROOM_PROMETHEUS", url),
                ("HEADROOM_PROMETHEUS_PASSWORD", "s3cret"),
            ],
        ),
    ] {
        let output = run(words, variables);
        let printed = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(!printed.contains("s3") && !printed.contains("cret"), "{printed}");
        if words.last() != Some(&"--help") {
            assert_eq!(output.status.code(), Some(2), "{printed}");
            assert!(
                printed.contains(shown) && printed.contains("--prometheus"),
                "{printed}"
            );
        }
    }
}

#[rstest]
#[case::password(&["--prometheus-user", "ann"], "the password")]
#[case::header(&["--header", "Authorization: Bearer s3cret"], "header authorization")]
#[case::cookie(&["--header", "cookie: s3cret"], "header cookie")]
fn a_credential_is_not_sent_unencrypted(#[case] words: &[&str], #[case] named: &str) {
    let line = advise("http://prometheus.example.test", words, &[(PASSWORD, "s3cret")]);
    for part in [named, "unencrypted to prometheus.example.test", "https://"] {
        assert!(line.contains(part), "{line}");
    }
    assert!(!line.contains("s3cret"), "{line}");
}

#[test]
fn headers_are_sent_with_each_request() {
    let server = empty_prometheus();
    let words = [
        "--header",
        "X-Scope-OrgID: team-a",
        "--header",
        "Authorization:Bearer t",
    ];
    advise(&format!("http://{}", server.addr), &words, &[]);
    assert_eq!(header(&server, "x-scope-orgid").as_deref(), Some("team-a"));
    assert_eq!(header(&server, "authorization").as_deref(), Some("Bearer t"));
    for head in server.heads() {
        assert!(head.to_lowercase().contains("x-scope-orgid: team-a"), "{head}");
    }

    // Through the API server, which has the Authorization header for itself.
    let server = empty_prometheus();
    let (_place, file) = kubeconfig(
        &json!({"server": format!("http://{}", server.addr)}),
        &json!({"token": "own"}),
    );
    let through = |words: &[&str]| {
        let words = [
            &["advise", "--prometheus-service", "monitoring/prometheus"],
            words,
        ]
        .concat();
        error_line(&words, &[("KUBECONFIG", text(&file))])
    };
    through(&words[..2]);
    assert_eq!(header(&server, "x-scope-orgid").as_deref(), Some("team-a"));
    assert_eq!(header(&server, "authorization").as_deref(), Some("Bearer own"));
    let line = through(&words);
    assert!(
        line.contains("header authorization") && line.contains("--prometheus-service"),
        "{line}"
    );
}

#[rstest]
#[case::no_colon("s3cret", "NAME: VALUE")]
#[case::no_name(": s3cret", "NAME: VALUE")]
#[case::bad_name("a b: s3cret", "NAME: VALUE")]
#[case::bad_value("a: s3\ncret", "NAME: VALUE")]
fn an_invalid_header_is_refused_without_its_value(#[case] header: &str, #[case] reason: &str) {
    let output = run(
        &["advise", "--prometheus", "http://127.0.0.1:1", "--header", header],
        &[],
    );
    let printed = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{printed}");
    assert!(
        printed.contains("--header") && printed.contains(reason),
        "{printed}"
    );
    assert!(!printed.contains("s3"), "{printed}");
}

#[test]
fn a_selector_is_in_every_selector_of_every_query() {
    let server = empty_prometheus();
    let words = [
        "--selector",
        "cluster=prod",
        "--selector",
        "region=~eu-.*",
        "--pool-label",
        "label_pool",
        "--query",
        "pod-cpu=sum by (node, namespace, pod) (mine)",
    ];
    let line = advise(&format!("http://{}", server.addr), &words, &[]);
    assert!(line.contains(r#"cluster="prod",region=~"eu-.*""#), "{line}");
    let heads = server.heads();
    assert!(
        heads
            .iter()
            .any(|head| head.contains("mine%7Bcluster%3D%22prod%22%2Cregion%3D%7E%22eu-.*%22%7D"))
    );
    for head in heads {
        let selectors = head.matches("%7B").count();
        assert!(selectors > 0, "{head}");
        assert_eq!(
            head.matches("%7Bcluster%3D%22prod%22%2Cregion%3D%7E%22eu-.*%22")
                .count(),
            selectors,
            "{head}"
        );
    }
    let output = run(&["advise", "--from", "x", "--selector", "cluster=a"], &[]);
    assert_eq!(output.status.code(), Some(2));
    let output = run(
        &["advise", "--prometheus", "http://a", "--selector", "cluster"],
        &[],
    );
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_node_name_in_two_clusters_is_refused_with_label_and_values() {
    let server = prometheus(|head| {
        // Aggregations have no such label.
        if !head.contains("query=kube_node_status_capacity") {
            return json!([]);
        }
        let series = |cluster: &str| {
            let labels = json!({"node": "worker-1", "cluster": cluster, "instance": cluster, "job": "k"});
            json!({"metric": labels, "values": [[1_700_000_000, "4"]]})
        };
        json!([series("north"), series("south")])
    });
    let url = format!("http://{}", server.addr);
    let line = advise(&url, &[], &[]);
    for part in [
        "worker-1",
        "label cluster",
        "\"north\"",
        "\"south\"",
        "--selector cluster=north",
    ] {
        assert!(line.contains(part), "{line}");
    }
}
