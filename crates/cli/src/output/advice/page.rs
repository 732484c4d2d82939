//! Renders advice as one HTML file with plots.

use std::cmp::Reverse;

use headroom_domain::{ratio::Cents, resource::Resource};
use headroom_plot::{Bars, Page, Plot, Row, Series, Shape, table};
use jiff::Timestamp;

use super::{super::table::RankedColumn, COLUMNS, row};
use crate::{
    advise::{
        Advice, CAVEATS,
        advice::{Figures, Group},
        record::RecordedFrame,
        trend::{Day, Trend},
    },
    human_numbers::{percent, short},
};

/// Limit of pools in a plot; the table and the JSON have all.
const MOST_POOLS: usize = 12;
const MOST_NODES: usize = 24;

/// Terms of the tables and plots.
const TERMS: [(&str, &str); 9] = [
    (
        "P5, P50, P95",
        "percentiles of the ratio over all frames of all nodes",
    ),
    ("ALLOCATABLE", "mean raw allocatable of the nodes"),
    ("GAINED", "mean amount that the ratio adds to it"),
    (
        "MISSED",
        "hourly decisions to amplify after which the same pods exceeded the predicted peak within a day",
    ),
    (
        "SATURATED",
        "frames of five minutes with a measured peak above capacity (memory: above raw allocatable)",
    ),
    (
        "FILLED",
        "such frames if pods with the same use per request had filled the gained amount",
    ),
    ("demand", "the highest sample of use in a frame"),
    (
        "predicted peak",
        "the highest expected use of the present pods, with the margin",
    ),
    (
        "advised allocatable",
        "raw allocatable times the ratio, as the scheduler would have seen it",
    ),
];

impl Advice {
    /// Renders one HTML file for capacity planning, without external resources. The same advice gives the same bytes.
    pub fn html(&self) -> String {
        let mut page = Page::new("Headroom: advice");
        page.heading("Capacity that Headroom would have added");
        for line in self.headline() {
            page.text(&line);
        }
        page.text(&self.scope());
        for line in self.left_out_lines() {
            page.text(&line);
        }
        for resource in self.resources() {
            self.add_resource(&mut page, resource);
        }
        page.section("Terms");
        page.terms(TERMS);
        page.section("Limits of these numbers");
        page.list(CAVEATS);
        page.finish()
    }

    fn scope(&self) -> String {
        let bounds = self.resources().map(|resource| {
            let bounds = self.policy.bounds.get(resource);
            format!("between {} and {} ({})", bounds.min, bounds.max, called(resource))
        });
        let bounds: Vec<String> = bounds.collect();
        format!(
            "{} nodes in {} pools, from {} to {}, a sample of each node every {} s. Predicted use may reach {} of capacity, and the \
             ratio is {}.",
            self.nodes.len(),
            self.pools.len(),
            time(self.span.start_s()),
            time(self.span.end_s()),
            self.step_s,
            percent(self.policy.target_ppm.cpu),
            bounds.join(", "),
        )
    }

    fn add_resource(&self, page: &mut Page, resource: Resource) {
        page.section(&format!("Pools: {}", called(resource)));
        let all: Vec<(&Group, &Figures)> = self
            .pools
            .iter()
            .filter_map(|pool| Some((pool, pool.figures.get(resource).as_ref()?)))
            .collect();
        if all.is_empty() {
            page.text("There is at most one day of measurements; the estimator needs more.");
            return;
        }
        page.figure("Figures", &of_pools(resource, &all));
        let mut shown = all;
        shown.sort_by_key(|(pool, figures)| (Reverse(figures.raw), pool.name.as_str()));
        if shown.len() > MOST_POOLS {
            page.text(&format!(
                "The plots show the {MOST_POOLS} pools with the most allocatable."
            ));
            shown.truncate(MOST_POOLS);
        }
        let courses = || shown.iter().map(|(pool, _)| (*pool, pool.course.get(resource)));
        page.figure("Ratio: share of frames up to each", &ratios(courses()).svg());
        page.figure("Capacity gained", &gained(resource, &shown).svg());
        page.figure("Capacity gained, hour by hour", &hours(courses()).svg());
        page.figure("Predicted violations", &violations(&shown).svg());
        for (pool, day) in courses().filter_map(|(pool, course)| Some((pool, course.day.as_ref()?))) {
            let from = day.frames.first().map_or(0, |moment| moment.at_s);
            let title = format!(
                "Pool {}: a day of {}, its fullest node, from {}",
                pool.name,
                day.node,
                time(from)
            );
            page.figure(&title, &of_day(resource, day).svg());
        }
        self.add_needs(page, resource);
    }

    /// Nodes that advertise more than is safe, the one with the lowest safe ratio first.
    fn add_needs(&self, page: &mut Page, resource: Resource) {
        let mut nodes: Vec<(&Group, &Figures)> = self.overcommitted(resource).collect();
        if nodes.is_empty() {
            page.text(&format!(
                "No node advertises more {} than is safe to use.",
                called(resource)
            ));
            return;
        }
        nodes.sort_by_key(|(node, figures)| (figures.needed, node.name.as_str()));
        let left = nodes.len().saturating_sub(MOST_NODES);
        nodes.truncate(MOST_NODES);
        let rows = nodes.iter().map(|(node, figures)| Row {
            name: format!("{} ({})", node.name, node.pool),
            bars: vec![(
                f64::from(figures.needed.0) / 100.0,
                format!(
                    "{}: {} of {}",
                    figures.needed,
                    short(resource, share(figures.raw, figures.needed)),
                    short(resource, i128::from(figures.raw))
                ),
            )],
        });
        let bars = Bars {
            x: "safe to advertise, as a share of raw allocatable",
            series: vec!["safe to advertise"],
            rows: rows.collect(),
        };
        page.figure("Nodes that advertise more than is safe", &bars.svg());
        if left > 0 {
            page.text(&format!("{left} more nodes are in the JSON output."));
        }
    }
}

/// Table of the pools, without the column RESOURCE.
fn of_pools(resource: Resource, pools: &[(&Group, &Figures)]) -> String {
    let is_shown = |column: RankedColumn| column.title() != "RESOURCE";
    let columns = COLUMNS.into_iter().filter(|column| is_shown(*column));
    let cells = |(pool, figures): &(&Group, &Figures)| {
        let cells = COLUMNS.into_iter().zip(row(pool, resource, figures));
        cells
            .filter(|(column, _)| is_shown(*column))
            .map(|(_, cell)| cell)
            .collect()
    };
    table(columns.map(RankedColumn::title), pools.iter().map(cells))
}

fn ratios<'c>(courses: impl Iterator<Item = (&'c Group, &'c Trend)> + Clone) -> Plot {
    let highest = courses
        .clone()
        .filter_map(|(_, course)| course.ratios.last())
        .max();
    let curve = |course: &Trend| {
        let count = real(course.ratios.len());
        let mut points: Vec<(f64, f64)> = course
            .ratios
            .first()
            .map(|&first| (ratio(first), 0.0))
            .into_iter()
            .collect();
        for (number, cents) in (1..).zip(&course.ratios) {
            let next = course.ratios.get(number);
            if next != Some(cents) {
                points.push((ratio(*cents), 100.0 * real(number) / count));
            }
        }
        points.extend(highest.map(|&highest| (ratio(highest), 100.0)));
        points
    };
    Plot {
        x: "ratio",
        y: "frames, %",
        step: None,
        with: Some(0.0),
        series: courses
            .map(|(pool, course)| Series::new(pool.name.as_str(), Shape::Steps, curve(course)))
            .collect(),
    }
}

fn gained(resource: Resource, pools: &[(&Group, &Figures)]) -> Bars {
    let rows = pools.iter().map(|(pool, figures)| Row {
        name: pool.name.clone(),
        bars: vec![(
            amount(resource, figures.gained),
            format!(
                "{} (+{})",
                short(resource, i128::from(figures.gained)),
                percent(figures.gained_ppm())
            ),
        )],
    });
    Bars {
        x: match resource {
            Resource::Cpu => "mean CPUs above raw allocatable",
            Resource::Memory => "mean GiB above raw allocatable",
        },
        series: vec!["gained"],
        rows: rows.collect(),
    }
}

fn hours<'c>(courses: impl Iterator<Item = (&'c Group, &'c Trend)> + Clone) -> Plot {
    let first = courses
        .clone()
        .filter_map(|(_, course)| course.hours.first())
        .map(|hour| hour.at_s)
        .min()
        .unwrap_or_default();
    let points = |course: &Trend| {
        let points = course.hours.iter().map(|hour| {
            let days = large(hour.at_s - first) / 86_400.0;
            (days, 100.0 * large(hour.gained) / large(hour.raw.max(1)))
        });
        points.collect()
    };
    Plot {
        x: "days since the first counted day",
        y: "gained, % of raw allocatable",
        step: None,
        with: Some(0.0),
        series: courses
            .map(|(pool, course)| Series::new(pool.name.as_str(), Shape::Steps, points(course)))
            .collect(),
    }
}

fn violations(pools: &[(&Group, &Figures)]) -> Bars {
    let bar = |ppm: u32, of: String| (f64::from(ppm) / 10_000.0, format!("{}{of}", percent(ppm)));
    let rows = pools.iter().map(|(pool, figures)| Row {
        name: pool.name.clone(),
        bars: vec![
            figures.missed_ppm.map_or_else(
                || (0.0, "no decisions".to_owned()),
                |ppm| bar(ppm, format!(" of {} decisions", figures.judged)),
            ),
            bar(figures.saturated_ppm, String::new()),
            bar(figures.would_saturate_ppm, String::new()),
        ],
    });
    Bars {
        x: "% of hourly decisions to amplify (missed), % of frames (saturated)",
        series: vec![
            "missed: use above prediction",
            "saturated, as measured",
            "saturated, if filled",
        ],
        rows: rows.collect(),
    }
}

fn of_day(resource: Resource, day: &Day) -> Plot {
    let from = day.frames.first().map_or(0, |moment| moment.at_s);
    let series = |name: &str, shape: Shape, value: fn(&RecordedFrame) -> u64| {
        let points = day.frames.iter().map(|moment| {
            let hours = large(moment.at_s - from) / 3600.0;
            (hours, amount(resource, value(moment)))
        });
        Series::new(name, shape, points.collect())
    };
    Plot {
        x: "hours",
        y: match resource {
            Resource::Cpu => "CPUs",
            Resource::Memory => "GiB",
        },
        step: Some(3.0),
        with: Some(0.0),
        series: vec![
            series("demand", Shape::Line, |moment| moment.demand),
            series("predicted peak", Shape::Steps, |moment| moment.predicted),
            series("advised allocatable", Shape::Steps, |moment| moment.advised),
            series("requests", Shape::Steps, |moment| moment.bound),
            series("capacity", Shape::Steps, |moment| moment.capacity),
            series("raw allocatable", Shape::Steps, |moment| moment.raw),
        ],
    }
}

/// Formats a time; the number of seconds if it is out of range.
fn time(at_s: u64) -> String {
    let known = i64::try_from(at_s)
        .ok()
        .and_then(|at_s| Timestamp::from_second(at_s).ok());
    known.map_or_else(|| at_s.to_string(), |time| time.to_string())
}

/// Name of the resource in a sentence.
const fn called(resource: Resource) -> &'static str {
    match resource {
        Resource::Cpu => "CPU",
        Resource::Memory => "memory",
    }
}

fn share(amount: u64, cents: Cents) -> i128 {
    i128::from(amount) * i128::from(cents.0) / 100
}

/// Converts an amount to CPUs or GiB.
fn amount(resource: Resource, amount: u64) -> f64 {
    match resource {
        Resource::Cpu => large(amount) / 1000.0,
        Resource::Memory => large(amount) / 1_073_741_824.0,
    }
}

fn ratio(cents: u32) -> f64 {
    f64::from(cents) / 100.0
}

fn real(count: usize) -> f64 {
    large(u64::try_from(count).unwrap_or(u64::MAX))
}

#[expect(clippy::cast_precision_loss, reason = "a picture shows three digits")]
const fn large(amount: u64) -> f64 {
    amount as f64
}

#[cfg(test)]
mod tests {
    use headroom_domain::{policy::Bounds, resource::PerResource};

    use super::*;
    use crate::advise::{Policy, span::Span, trend::Hour};

    const FROM: u64 = 1_700_006_400;

    fn figures(needed: u32) -> Figures {
        Figures {
            frames: 576,
            ratio: [Cents(100), Cents(120), Cents(150)],
            needed: Cents(needed),
            raw: 31_500,
            gained: 6300,
            saturated_ppm: 20_000,
            would_saturate_ppm: 40_000,
            judged: 0,
            missed_ppm: None,
        }
    }

    fn group(name: &str, pool: &str, needed: u32) -> Group {
        let moment = |frame: u64| RecordedFrame {
            at_s: FROM + frame * 300,
            demand: 10_000 + 10 * frame,
            predicted: 15_000,
            capacity: 32_000,
            raw: 31_500,
            advised: 37_800,
            bound: 30_000,
        };
        let course = Trend {
            ratios: vec![100, 120, 150],
            hours: vec![Hour {
                at_s: FROM,
                raw: 31_500,
                gained: 6300,
            }],
            day: Some(Day {
                node: name.to_owned(),
                frames: (0..288).map(moment).collect(),
            }),
        };
        let none = Trend {
            ratios: Vec::new(),
            hours: Vec::new(),
            day: None,
        };
        Group {
            name: name.to_owned(),
            pool: pool.to_owned(),
            nodes: 1,
            pods: 10,
            pods_at_risk: 2,
            figures: PerResource {
                cpu: Some(figures(needed)),
                memory: None,
            },
            course: PerResource {
                cpu: course,
                memory: none,
            },
        }
    }

    fn advice(pools: Vec<Group>, nodes: Vec<Group>) -> Advice {
        let bounds = |max| Bounds {
            min: Cents(100),
            max: Cents(max),
        };
        Advice {
            span: Span::new(FROM, FROM + 2 * 86_400),
            step_s: 60,
            policy: Policy {
                bounds: PerResource {
                    cpu: bounds(200),
                    memory: bounds(100),
                },
                target_ppm: PerResource {
                    cpu: 900_000,
                    memory: 900_000,
                },
            },
            pools,
            nodes,
            left_out: Vec::new(),
            empty: Vec::new(),
        }
    }

    #[test]
    fn the_headline_has_gain_equivalent_nodes_and_pods_at_risk() {
        let pools = vec![group("blue", "blue", 120), group("red", "red", 120)];
        let headline = advice(pools, Vec::new()).headline();
        assert_eq!(
            headline,
            [
                "Headroom would have added 12.6 cores and 0.0 GiB in 2 pools.",
                "Pool blue, 1 node: 6.3 cores and 0.0 GiB gained: the CPU of 0.2 more nodes. 2 of 10 pods would have been at risk.",
                "Pool red, 1 node: 6.3 cores and 0.0 GiB gained: the CPU of 0.2 more nodes. 2 of 10 pods would have been at risk.",
            ]
        );
        let mut big = group("all", "all", 120);
        big.nodes = 40;
        let figures = big.figures.cpu.as_mut().unwrap();
        (figures.raw, figures.gained) = (40 * 31_500, 40 * 6_300);
        big.figures.memory = Some(Figures {
            raw: 40 << 30,
            gained: 10 << 30,
            ..*figures
        });
        assert_eq!(
            advice(vec![big], Vec::new()).headline(),
            [
                "Pool all, 40 nodes: 252.0 cores and 10.0 GiB gained: the CPU of 8.0 more nodes and the memory of 10.0 more nodes. 2 \
                 of 10 pods would have been at risk."
            ]
        );
        let many = (0..7).map(|number| group(&number.to_string(), "", 100)).collect();
        let headline = advice(many, Vec::new()).headline();
        assert_eq!(
            (headline.len(), headline[6].as_str()),
            (7, "2 more pools are in the table.")
        );
    }

    #[test]
    fn a_page_has_each_plot_and_no_external_resources() {
        let pools = vec![group("blue", "blue", 120), group("<script>&", "<script>&", 120)];
        let nodes = vec![group("n1", "blue", 120), group("n2", "blue", 87)];
        let html = advice(pools, nodes).html();
        // Ratios, gain, gain by the hour, violations, the nodes that advertise too much, and a day of each pool.
        assert_eq!(html.matches("<svg").count(), 5 + 2);
        for text in [
            "from 2023-11-15T00:00:00Z to 2023-11-17T00:00:00Z",
            "is between 1.00 and 2.00 (CPU).",
            "Pool blue: a day of blue, its fullest node, from 2023-11-15T00:00:00Z",
            "6300m (+20.0%)",
            "no decisions",
            "n2 (blue)",
            "0.87: 27405m of 31500m",
            "&lt;script&gt;&amp;",
            "averages over a minute hide bursts",
        ] {
            assert!(html.contains(text), "{text}: {html}");
        }
        for foreign in [
            "http",
            "src=",
            "href=",
            "@import",
            "url(",
            "<script",
            "NaN",
            "inf",
            "n1 (blue)",
        ] {
            assert!(!html.contains(foreign), "{foreign}");
        }
    }

    #[test]
    fn plots_show_the_largest_pools_and_the_lowest_safe_ratios() {
        let many = |prefix: &str, count: u32| -> Vec<Group> {
            let names = (0..count).map(|number| format!("{prefix}{number:02}"));
            names.map(|name| group(&name, &name, 50)).collect()
        };
        let html = advice(many("pool-", 14), many("node-", 30)).html();
        assert_eq!(html.matches("<svg").count(), 5 + 12);
        assert!(html.contains("<td>pool-13"), "the table has all");
        assert!(
            html.contains("The plots show the 12 pools")
                && html.contains("6 more nodes are in the JSON output.")
        );
        assert!(html.contains(">node-23 (node-23)<") && !html.contains("node-24"));
    }

    #[test]
    fn a_page_without_figures_has_the_reason() {
        let mut pool = group("all", "all", 100);
        pool.figures.cpu = None;
        let html = advice(vec![pool], Vec::new()).html();
        assert!(html.contains("at most one day of measurements") && !html.contains("<svg"));
    }
}
