//! Tests of the pages about quotas on terminals of 80, 120 and 200 columns.

use headroom_proto::v1alpha1::{
    ExplainQuotaResponse, ExplainedQuota, QuotaResource, QuotaSight, QuotaStatus, QuotaVerdict,
};
use insta::assert_snapshot;

use super::{
    explained::QuotaPage,
    tree::{TreePage, TreeTable},
    *,
};
use crate::quota::{
    answers::{QuotaAnswer, SeenQuotas},
    drawing::draw,
};

fn resource(name: &str) -> QuotaResource {
    let amount = |text: &str| Some(text.to_owned());
    QuotaResource {
        resource: name.to_owned(),
        min: amount("1099511627776"),
        max: amount("4398046511104"),
        limit: amount("4398046511104"),
        limit_from: "admission".to_owned(),
        used: amount("3298534883328"),
        claimed: amount("1073741824"),
        left: amount("1098437885952"),
        ..QuotaResource::default()
    }
}

fn quotas() -> Vec<QuotaStatus> {
    let quota = |name: &str, parent: &str| QuotaStatus {
        namespace: "machine-learning-platform".to_owned(),
        name: name.to_owned(),
        parent: parent.to_owned(),
        is_parent: parent == "koordinator-root-quota",
        pods: Some(1_234),
        resources: vec![resource("memory"), resource("kubernetes.io/batch-memory")],
        ..QuotaStatus::default()
    };
    vec![
        quota("research", "koordinator-root-quota"),
        quota("reinforcement-learning-experiments-of-the-night", "research"),
    ]
}

fn sight() -> QuotaSight {
    QuotaSight {
        replica: "headroom-webhook-5d9c7b6f4-abcde".to_owned(),
        quotas_known: true,
        pods_known: true,
        evaluation: "refuses".to_owned(),
        quotas: 2,
        pods: 1_234,
        ..QuotaSight::default()
    }
}

fn answers<T>(result: T) -> QuotaAnswers<T> {
    QuotaAnswers(vec![QuotaAnswer {
        addr: "10.0.0.1:9444".to_owned(),
        result: Ok(result),
    }])
}

/// Compares a page with its snapshot, and checks that no line exceeds the terminal's columns.
fn assert_fits(name: &str, columns: usize, page: &str) {
    let longest = page.lines().map(|line| line.chars().count()).max();
    assert!(longest <= Some(columns), "{page}");
    assert_snapshot!(format!("{name}_at_{columns}"), page);
}

#[test]
fn pages_of_quotas_fit_80_120_and_200_columns() {
    let quotas = quotas();
    let drawn = draw(&quotas, None);
    let seen = answers(SeenQuotas {
        sight: sight(),
        quotas: quotas.clone(),
    });
    let explained = answers(ExplainQuotaResponse {
        sight: Some(sight()),
        quotas: vec![ExplainedQuota {
            status: quotas.last().cloned(),
            above: vec!["research".to_owned()],
            way_end: "root".to_owned(),
            of_the_name: 1,
            verdict: Some(QuotaVerdict {
                result: "room".to_owned(),
                ..QuotaVerdict::default()
            }),
            ..ExplainedQuota::default()
        }],
        ..ExplainQuotaResponse::default()
    });
    for columns in [80, 120, 200] {
        let layout = Layout {
            width: Some(columns),
            ..Layout::default()
        };
        for (name, table) in [("tree", TreeTable::Amounts), ("usage", TreeTable::Usage)] {
            let page = TreePage {
                answers: &seen,
                drawn: &drawn,
                table,
                layout,
            };
            assert_fits(name, columns, &page.to_string());
        }
        let page = QuotaPage {
            answers: &explained,
            layout,
        };
        assert_fits("explained", columns, &page.to_string());
    }
}
