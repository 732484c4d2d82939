//! Parses Prometheus' responses to range queries into series of integers.

use std::collections::BTreeMap;

use headroom_domain::resource::Resource;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::error::AdviceError;

pub type Labels = BTreeMap<String, String>;

/// A series; CPU in milli-cores, memory in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Series {
    pub labels: Labels,
    /// Seconds since 1970 and value. NaN, infinite and negative values are left out.
    pub samples: Vec<(u64, u64)>,
}

/// Envelope of a response of Prometheus' HTTP API, version 1.
#[derive(Debug, Deserialize)]
struct Answer {
    status: Status,
    data: Option<Data>,
    #[serde(rename = "errorType", default)]
    kind: String,
    #[serde(default)]
    error: String,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Success,
    Error,
}

#[derive(Debug, Deserialize)]
struct Data {
    #[serde(rename = "resultType")]
    kind: Kind,
    /// Its form depends on `kind`.
    result: Box<RawValue>,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Matrix,
    Vector,
    Scalar,
    String,
}

#[derive(Debug, Deserialize)]
struct Row {
    metric: Labels,
    values: Vec<(f64, String)>,
}

/// Parses the response to the query `name`.
///
/// # Errors
/// [`AdviceError::Answer`] if it is not a response of Prometheus' API; [`AdviceError::Refused`] if it is an error;
/// [`AdviceError::NotARange`] if it is the response to an instant query.
pub fn read(name: &str, resource: Resource, answer: &[u8]) -> Result<Vec<Series>, AdviceError> {
    let unreadable = |source| AdviceError::Answer {
        query: name.to_owned(),
        source,
    };
    let Answer {
        status,
        data,
        kind,
        error,
    } = serde_json::from_slice(answer).map_err(unreadable)?;
    match (status, data) {
        (Status::Success, Some(data)) if data.kind == Kind::Matrix => {
            let rows: Vec<Row> = serde_json::from_str(data.result.get()).map_err(unreadable)?;
            Ok(rows.into_iter().map(|row| series(row, resource)).collect())
        }
        (Status::Success, Some(_)) => Err(AdviceError::NotARange {
            query: name.to_owned(),
        }),
        (Status::Success, None) => Err(unreadable(serde::de::Error::missing_field("data"))),
        (Status::Error, _) => Err(AdviceError::Refused {
            query: name.to_owned(),
            reason: format!("{kind}: {error}"),
        }),
    }
}

fn series(row: Row, resource: Resource) -> Series {
    let Row { metric, values } = row;
    let scale = match resource {
        Resource::Cpu => 1000.0,
        Resource::Memory => 1.0,
    };
    let samples = values.into_iter().filter_map(|(at_s, text)| {
        let value: f64 = text.parse().ok()?;
        Some((whole(at_s)?, whole((value * scale).round())?))
    });
    Series {
        labels: metric,
        samples: samples.collect(),
    }
}

/// The integer part; `None` for negative and infinite values, NaN, and values above 64 bits.
fn whole(value: f64) -> Option<u64> {
    const LARGEST: f64 = 18_446_744_073_709_550_000.0;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "bounds are checked, and the fraction is dropped on purpose"
    )]
    (0.0..LARGEST).contains(&value).then_some(value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_become_milli_cores_and_bytes_stay() {
        let answer = br#"{"status":"success","data":{"resultType":"matrix","result":[
            {"metric":{"node":"a"},"values":[[1000,"1.2345"],[1060.5,"NaN"],[1120,"-1"],[1180,"+Inf"],[1240,"2e0"]]}]}}"#;
        let cpu = read("node-cpu", Resource::Cpu, answer).unwrap();
        assert_eq!(cpu[0].labels["node"], "a");
        assert_eq!(cpu[0].samples, [(1000, 1235), (1240, 2000)]);
        let memory = read("node-memory", Resource::Memory, answer).unwrap();
        assert_eq!(memory[0].samples, [(1000, 1), (1240, 2)]);
    }

    #[test]
    fn prometheus_errors_are_passed_on() {
        let answer = br#"{"status":"error","errorType":"bad_data","error":"invalid parameter \"query\""}"#;
        let error = read("pod-cpu", Resource::Cpu, answer).unwrap_err().to_string();
        assert_eq!(
            error,
            "pod-cpu: Prometheus returned an error: bad_data: invalid parameter \"query\""
        );
    }

    #[test]
    fn an_invalid_response_names_the_query() {
        let instant = br#"{"status":"success","data":{"resultType":"vector","result":[]}}"#;
        assert!(matches!(
            read("q", Resource::Cpu, instant),
            Err(AdviceError::NotARange { query }) if query == "q"
        ));
        for other in [b"".as_slice(), b"<html>", b"{}", br#"{"status":"success"}"#] {
            assert!(matches!(
                read("q", Resource::Cpu, other),
                Err(AdviceError::Answer { query, .. }) if query == "q"
            ));
        }
    }
}
