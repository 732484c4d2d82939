//! Decides about every profile for a new object, and applies those that are for it, in the order of their names, each whole
//! or not at all.
//!
//! Whom a profile is for is asked of the object as it came, so what one profile writes makes no other one match.

use std::{collections::BTreeMap, fmt, sync::Arc};

use headroom_domain::selector::Labels;

use super::{
    FAILURES_SKIP, KnownProfile, PlannedProfile, PriorityClass, Profile, ProfileMatch, ProfileTarget,
    TranslationWish, draw, warnings::ProfileWarnings,
};
use crate::{explain::VerdictKind, pod_object::PodObject, switch::Switches};

/// All profiles, by name.
pub type ProfileList = BTreeMap<Box<str>, Arc<KnownProfile>>;

/// An object that is created, as it came.
#[derive(Debug)]
pub struct Newcomer<'a> {
    /// What it is.
    pub target: ProfileTarget,
    /// The UID of its review, by which chance decides; without one, chance leaves nothing out.
    pub review: Option<&'a str>,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its labels.
    pub labels: Labels,
    /// The labels of its namespace; `None` while it is not known, and for a Reservation, which is in none.
    pub namespace_labels: Option<Arc<Labels>>,
}

/// What profiles are applied by.
#[derive(Clone, Copy)]
pub struct ProfileRules<'a> {
    /// The profiles.
    pub profiles: &'a ProfileList,
    /// Finds a PriorityClass by its name.
    pub class: &'a dyn Fn(&str) -> Option<Arc<PriorityClass>>,
    /// The switches in force.
    pub switches: &'a Switches,
}

/// What came of the profiles.
#[derive(Debug, Default)]
pub struct ProfileReview<'p> {
    /// What they mean for cpu and memory.
    pub wish: TranslationWish,
    /// Those that are for the object, or may be, by name.
    pub results: Vec<(&'p str, ProfileResult)>,
}

/// What came of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProfileResult {
    /// It was applied.
    Applied,
    /// It is for others.
    NotMatched(ProfileMatch),
    /// Its probability left this object out.
    LeftOut,
    /// It cannot be applied, or nobody knows whether it is for the object.
    Failed(String),
}

/// A profile that cannot be applied ends the creation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileStop {
    /// Its name.
    pub profile: String,
    /// Why.
    pub reason: String,
}

impl Newcomer<'_> {
    /// Whether a profile is for the object.
    pub fn matches(&self, profile: &Profile, switches: &Switches) -> ProfileMatch {
        match self.target {
            ProfileTarget::Pod => profile.matches(&self.labels, self.namespace_labels.as_deref()),
            ProfileTarget::Reservation => profile.matches_reservation(&self.labels, switches),
        }
    }

    fn draw(&self, profile: &str) -> u8 {
        self.review.map_or(0, |review| draw(review, profile))
    }

    /// What is decided about a profile before it is applied: that it will be is `Applied`.
    fn plan(&self, name: &str, known: &KnownProfile, switches: &Switches) -> ProfileResult {
        let profile = match &known.compiled {
            Ok(profile) => profile,
            // It might be for any object.
            Err(reason) => return ProfileResult::Failed(reason.clone()),
        };
        match self.matches(profile, switches) {
            ProfileMatch::Matches => {}
            ProfileMatch::UnknownNamespace => {
                let namespace = self.namespace;
                return ProfileResult::Failed(format!(
                    "it selects by namespace, and Namespace {namespace:?} is not known to this replica"
                ));
            }
            other @ (ProfileMatch::OtherLabels | ProfileMatch::OtherNamespace) => {
                return ProfileResult::NotMatched(other);
            }
        }
        if !profile.is_drawn(self.draw(name), switches) {
            return ProfileResult::LeftOut;
        }
        match known.fault() {
            Some(fault) => ProfileResult::Failed(fault.to_owned()),
            None => ProfileResult::Applied,
        }
    }

    /// Writes why that came of a profile, where the result does not say it.
    fn write_reason(
        &self,
        name: &str,
        known: &KnownProfile,
        result: &ProfileResult,
        text: &mut dyn fmt::Write,
    ) -> fmt::Result {
        let profile = match (&known.compiled, result) {
            (_, ProfileResult::Failed(reason)) => return text.write_str(reason),
            (Err(_), _) => return Ok(()),
            (Ok(profile), _) => profile,
        };
        let probability = profile.probability;
        match result {
            ProfileResult::NotMatched(found) => {
                profile.write_mismatch(*found, &self.labels, self.namespace_labels.as_deref(), text)
            }
            ProfileResult::LeftOut => write!(
                text,
                "spec.probability is {probability}, and the draw of this review was {} of 0 to 99",
                self.draw(name)
            ),
            ProfileResult::Applied if self.review.is_none() && probability < 100 => write!(
                text,
                "spec.probability is {probability}: other pods like this one are left out"
            ),
            ProfileResult::Applied | ProfileResult::Failed(_) => Ok(()),
        }
    }
}

impl<'p> ProfileRules<'p> {
    /// Applies the profiles that are for a new object.
    ///
    /// # Errors
    /// A profile that can be read cannot be applied, and is not to be skipped.
    pub fn review<O: PodObject>(
        self,
        newcomer: &Newcomer<'_>,
        object: &mut O,
    ) -> Result<ProfileReview<'p>, ProfileStop> {
        let profiles = self.profiles.iter();
        let mut results: Vec<_> = profiles
            .map(|(name, known)| (&**name, &**known, newcomer.plan(name, known, self.switches)))
            .collect();
        self.apply(newcomer.target, &mut results, object);
        let (mut review, mut warnings) = (ProfileReview::default(), ProfileWarnings::default());
        for (name, known, result) in results {
            object.explain(|explanation| {
                explanation.note_profile(name, result.verdict(), |text| {
                    newcomer.write_reason(name, known, &result, text)
                });
            });
            match &result {
                ProfileResult::NotMatched(_) => continue,
                ProfileResult::Applied => {
                    review.wish.count(true, known.skip.as_deref(), self.switches);
                    let profile = known.compiled.as_ref();
                    let member = profile
                        .ok()
                        .and_then(|profile| profile.left_out(newcomer.target, self.switches));
                    if let Some(member) = member {
                        warnings.push(|| {
                            format!("colocation profile {name}: its patch may not write {member} and leaves it as it is")
                        });
                    }
                }
                ProfileResult::LeftOut => review.wish.count(false, known.skip.as_deref(), self.switches),
                ProfileResult::Failed(reason) => {
                    if known.compiled.is_ok() && !self.switches.is_on(&FAILURES_SKIP) {
                        let (profile, reason) = (name.to_owned(), reason.clone());
                        return Err(ProfileStop { profile, reason });
                    }
                    warnings.push(|| format!("colocation profile {name} was not applied: {reason}"));
                }
            }
            review.results.push((name, result));
        }
        warnings.write(newcomer.target, object);
        Ok(review)
    }

    /// Applies those that are to be; those that cannot be have failed.
    fn apply<O: PodObject>(
        self,
        target: ProfileTarget,
        results: &mut [(&str, &KnownProfile, ProfileResult)],
        object: &mut O,
    ) {
        let is_planned = |result: &ProfileResult| *result == ProfileResult::Applied;
        let planned = results.iter().filter(|(.., result)| is_planned(result));
        let planned = planned.filter_map(|(name, known, _)| {
            let profile = known.compiled.as_ref().ok()?;
            let class = profile.priority_class_name().and_then(self.class);
            Some(PlannedProfile::new(name, profile, class, target, self.switches))
        });
        let planned: Vec<_> = planned.collect();
        if planned.is_empty() {
            return;
        }
        let done = object.apply_each(&planned);
        let planned = results.iter_mut().filter(|(.., result)| is_planned(result));
        for ((.., result), done) in planned.zip(done) {
            if let Err(reason) = done {
                *result = ProfileResult::Failed(reason);
            }
        }
    }
}

impl ProfileResult {
    /// The word for metrics and audit events.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::NotMatched(_) => "other",
            Self::LeftOut => "chance",
            Self::Failed(_) => "failed",
        }
    }

    const fn verdict(&self) -> VerdictKind {
        match self {
            Self::Applied => VerdictKind::Applied,
            Self::NotMatched(ProfileMatch::OtherNamespace) => VerdictKind::OtherNamespace,
            Self::NotMatched(_) => VerdictKind::OtherLabels,
            Self::LeftOut => VerdictKind::Chance,
            Self::Failed(_) => VerdictKind::Failed,
        }
    }
}
