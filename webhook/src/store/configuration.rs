//! Loads the webhook's configuration file (`--config`): the amplification policy over which `store::policies` lays
//! Koordinator's ConfigMap. Unknown keys are errors.

use std::path::Path;

use headroom_kit::config::{self, ConfigError};
pub use headroom_rules::slo::amplification::Amplification;
use serde::Deserialize;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    amplification: Amplification,
}

/// Reads the amplification settings of the configuration file; without a file they are empty.
///
/// # Errors
/// The file cannot be read, or something in it is unknown or out of range.
pub fn load(file: Option<&Path>) -> Result<Amplification, ConfigError> {
    let written: Option<File> = file.map(config::load).transpose()?;
    Ok(written
        .map(|File { amplification }| amplification)
        .unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use headroom_domain::{
        policy::{AnnotationEffect, Bounds, Floor, Mode, Policy},
        ratio::Cents,
        resource::PerResource,
    };
    use rstest::rstest;

    use super::*;

    fn read(text: &str) -> Result<Policy, ConfigError> {
        config::parse::<File>(text, Path::new("h.yaml"))
            .map(|file| file.amplification.over(Policy::default()))
    }

    #[test]
    fn every_key_is_read() {
        let policy = read(
            "amplification:\n  mode: auto\n  floor: none\n  annotations: lower\n  bounds:\n    cpu: {min: 0.5, max: 1.85}\n    \
             memory: {max: 1.29}\n  target: {cpu: 0.85, memory: 1}\n  staticMax: {cpu: 3, memory: 1.1}\n",
        )
        .unwrap();
        let expected = Policy {
            mode: Mode::Auto,
            bounds: PerResource {
                cpu: Bounds {
                    min: Cents(50),
                    max: Cents(185),
                },
                memory: Bounds {
                    min: Cents(100),
                    max: Cents(129),
                },
            },
            static_max: PerResource {
                cpu: Cents(300),
                memory: Cents(110),
            },
            floor: Floor::None,
            annotations: AnnotationEffect::Lower,
            target_ppm: PerResource {
                cpu: 850_000,
                memory: 1_000_000,
            },
        };
        assert_eq!(policy, expected);
    }

    #[rstest]
    #[case("{}")]
    #[case("amplification: {}")]
    #[case("amplification: {bounds: {}, target: {}, staticMax: {}}")]
    fn what_is_not_given_has_its_default(#[case] text: &str) {
        assert_eq!(read(text).unwrap(), Policy::default());
        assert_eq!(load(None).unwrap(), Amplification::default());
    }

    #[test]
    fn one_bound_leaves_the_other_as_it_is() {
        let policy = read("amplification: {bounds: {cpu: {min: 0.5}, memory: {max: 1.25}}}").unwrap();
        let bounds = |min, max| Bounds {
            min: Cents(min),
            max: Cents(max),
        };
        assert_eq!(
            (policy.bounds.cpu, policy.bounds.memory),
            (bounds(50, 200), bounds(100, 125))
        );
    }

    #[rstest]
    #[case("amplification: {mood: auto}", "amplification.mood: unknown field")]
    #[case("amplifications: {}", "amplifications: unknown field")]
    #[case("amplification: {mode: Auto}", "amplification.mode: unknown variant")]
    #[case("amplification: {floor: zero}", "amplification.floor: unknown variant")]
    #[case(
        "amplification: {annotations: none}",
        "amplification.annotations: unknown variant"
    )]
    #[case(
        "amplification: {bounds: {gpu: {max: 2}}}",
        "amplification.bounds.gpu: unknown field"
    )]
    #[case(
        "amplification: {bounds: {cpu: {most: 2}}}",
        "amplification.bounds.cpu.most: unknown field"
    )]
    #[case(
        "amplification: {bounds: {cpu: {max: 11}}}",
        "amplification.bounds.cpu.max: max 11.00 is outside"
    )]
    #[case(
        "amplification: {bounds: {cpu: {max: 0.9}}}",
        "amplification.bounds.cpu.max: max 0.90 is outside"
    )]
    #[case(
        "amplification: {bounds: {cpu: {min: 1.2, max: 2}}}",
        "amplification.bounds.cpu.min: min 1.20 is outside"
    )]
    #[case(
        "amplification: {bounds: {cpu: {max: 1.255}}}",
        "amplification.bounds.cpu.max: 1.255 has more than 2 decimals"
    )]
    #[case(
        "amplification: {bounds: {cpu: {max: -2}}}",
        "amplification.bounds.cpu.max: -2 is out of range"
    )]
    #[case(
        "amplification: {bounds: {cpu: {max: .inf}}}",
        "amplification.bounds.cpu.max: inf is out of range"
    )]
    #[case(
        "amplification: {bounds: {cpu: {max: two}}}",
        "amplification.bounds.cpu.max: "
    )]
    #[case(
        "amplification: {target: {cpu: 0}}",
        "amplification.target.cpu: 0 is outside 0.1..1"
    )]
    #[case(
        "amplification: {target: {memory: 1.01}}",
        "amplification.target.memory: 1.01 is outside 0.1..1"
    )]
    #[case(
        "amplification: {staticMax: {cpu: 0.5}}",
        "amplification.staticMax.cpu: max 0.50 is outside"
    )]
    fn invalid_values_are_refused_with_their_path(#[case] text: &str, #[case] reason: &str) {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(&format!(": {reason}")), "{error}");
    }

    #[test]
    fn every_ratio_of_two_decimals_is_read_exactly() {
        for cents in 100..=1000 {
            let text = format!("amplification: {{bounds: {{cpu: {{max: {}}}}}}}", Cents(cents));
            assert_eq!(read(&text).unwrap().bounds.cpu.max, Cents(cents));
        }
    }
}
