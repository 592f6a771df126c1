/* SPDX-License-Identifier: ISC */
#include "pgweir/pool/sizing.h"

#define DONE_MIN 50  /* statements that say something about the response time */
#define TURN_MAX 2   /* samples, then a turn is over without them */
#define WORTH 0.06   /* of what would be gained if each server did as much: chance gains less */
#define CLEAR 2.25   /* the square of 1.5 standard deviations */
#define PAIRS_MAX 96 /* for twice as many servers a third of it: where less is at stake, fewer */
#define NOISE_GUESS 0.006 /* of a restless machine, until it is known */
#define NOISE_GUESS_WEIGHT 4
#define NOISE_WEIGHT_MAX 32
#define FACTOR_MAX 32 /* the pause after a trial in vain, as a multiple of the trial */
#define PAUSE_MAX 256
#define GAIN_PAUSE 24 /* until what has gained is put to the test */

static double response_of(const struct sizing_sample *sample)
{
	return sample->done >= DONE_MIN ? (double)sample->busy / (double)sample->done : 0;
}

static double busy_of(const struct sizing_sample *sample)
{
	return sample->span > 0 ? (double)sample->busy / (double)sample->span : 0;
}

/* Most servers were idle: that says nothing about their number. */
static bool is_quiet(const struct sizing *sizing, const struct sizing_sample *sample)
{
	return !sample->waiting && busy_of(sample) < sizing->size / 2.0;
}

static void end_trial(struct sizing *sizing, unsigned int size)
{
	sizing->size = size;
	sizing->trial.other = 0;
}

void sizing_forget(struct sizing *sizing)
{
	end_trial(sizing, sizing->size);
	sizing->turn = sizing->turn_before = (struct sizing_turn){ 0 };
	sizing->best_response = 0;
}

/* Of a throughput, or a size: from -1 to 1, and the other way round as much. */
static double difference(double a, double b) { return (a - b) / (a + b); }

/* ---- turns ---- */

/* Whether the turn is over. */
static bool add_sample(struct sizing *sizing, const struct sizing_sample *sample)
{
	struct sizing_turn *turn = &sizing->turn;
	struct sizing_sample *sum = &turn->sum;

	if (turn->samples == TURN_MAX || response_of(sum) > 0) {
		sizing->turn_before = *turn;
		*turn = (struct sizing_turn){ 0 };
	}
	turn->size = sizing->size;
	sum->waiting = sample->waiting;
	sum->is_full = sample->is_full;
	sum->span += sample->span;
	sum->busy += sample->busy;
	sum->done += sample->done;
	sizing->trial.samples++;
	return ++turn->samples == TURN_MAX || response_of(sum) > 0;
}

/* Servers that are idle while nobody waits would not have done more. */
static void note_throughput(struct sizing *sizing)
{
	struct sizing_turn *turn = &sizing->turn;
	double response = response_of(&turn->sum);
	double wanted = busy_of(&turn->sum) + turn->sum.waiting;

	if (response > 0)
		turn->throughput = (wanted < turn->size ? wanted : turn->size) / response;
}

static bool is_pair_known(const struct sizing *sizing)
{
	return sizing->turn.throughput > 0 && sizing->turn_before.throughput > 0;
}

static void note_noise(struct sizing *sizing)
{
	double differs;

	if (!is_pair_known(sizing) || sizing->turn.size != sizing->turn_before.size)
		return;
	differs = difference(sizing->turn.throughput, sizing->turn_before.throughput);
	if (sizing->noise_count < NOISE_WEIGHT_MAX)
		sizing->noise_count++;
	sizing->noise += (differs * differs - sizing->noise) / sizing->noise_count;
}

/* When most servers are idle, it is as good as it may be. */
static void note_response(struct sizing *sizing, const struct sizing_sample *sample)
{
	double response = response_of(sample);

	if (response > 0 && (sizing->best_response <= 0 || response < sizing->best_response))
		sizing->best_response = response;
}

/* ---- the next trial ---- */

static unsigned int more_than(unsigned int size, const struct sizing_bounds *bounds,
                              unsigned int waiting)
{
	unsigned int more = size > 2 ? size : 2;

	if (more > waiting)
		more = waiting;
	return more < bounds->most - size ? size + more : bounds->most;
}

static unsigned int less_than(unsigned int size, const struct sizing_bounds *bounds)
{
	unsigned int less = size > 6 ? size - size / 3 : size > 3 ? size - 2 : 1;

	return less > bounds->least ? less : bounds->least;
}

static void try(struct sizing *sizing, unsigned int size)
{
	sizing->trial = (struct sizing_trial){
		.former = sizing->size,
		.other = size,
		.former_response = response_of(&sizing->turn.sum),
	};
	sizing->size = size;
}

static enum sizing_reason rest(struct sizing *sizing, const struct sizing_bounds *bounds)
{
	const struct sizing_sample *sum = &sizing->turn.sum;
	unsigned int size = sizing->size, more = size, less = size;
	bool is_less;

	if (sum->waiting > sizing->waiting_then + sizing->waiting_then / 2 + 2) {
		sizing->pause = sizing->pause_factor = 0;
		sizing->is_less_next = false;
	}
	if (sum->waiting && sum->is_full)
		more = more_than(size, bounds, sum->waiting);
	if (sum->waiting || response_of(sum) > 2 * sizing->best_response)
		less = sizing->turn.throughput > 0 ? less_than(size, bounds) : size;
	is_less = less < size && (sizing->is_less_next || more == size);
	sizing->pause -= sizing->pause > 0;
	if (sizing->pause && !(sizing->has_won && is_less == sizing->is_less_next))
		return SIZING_KEEPS;
	if (!is_less && more == size)
		return SIZING_KEEPS;
	try(sizing, is_less ? less : more);
	return is_less ? SIZING_SLOW : SIZING_WAITING;
}

/* ---- its end ---- */

static enum sizing_reason win(struct sizing *sizing)
{
	sizing->is_less_next = sizing->trial.other < sizing->trial.former;
	sizing->has_won = true;
	sizing->pause = GAIN_PAUSE;
	sizing->pause_factor = 0;
	sizing->waiting_then = sizing->turn.sum.waiting;
	end_trial(sizing, sizing->trial.other);
	return SIZING_KEEPS;
}

/* The longer a trial in vain has taken, and the more there were, the later the next one. */
static enum sizing_reason lose(struct sizing *sizing)
{
	unsigned int wanted = sizing->turn.sum.waiting + sizing->turn.size;
	unsigned int former = sizing->trial.former;

	sizing->is_less_next = sizing->trial.other > former;
	sizing->has_won = false;
	sizing->pause_factor = sizing->pause_factor ? 2 * sizing->pause_factor : 1;
	if (sizing->pause_factor > FACTOR_MAX)
		sizing->pause_factor = FACTOR_MAX;
	sizing->pause = sizing->pause_factor * sizing->trial.samples;
	if (sizing->pause > PAUSE_MAX)
		sizing->pause = PAUSE_MAX;
	sizing->waiting_then = wanted > former ? wanted - former : 0;
	end_trial(sizing, former);
	return sizing->is_less_next ? SIZING_NO_GAIN : SIZING_LESS_DONE;
}

static void add_pair(struct sizing_trial *trial, const struct sizing_turn *former,
                     const struct sizing_turn *other)
{
	double gain = difference(other->throughput, former->throughput);

	trial->pairs++;
	trial->gain += trial->other > trial->former ? gain : -gain;
	trial->former_response +=
	    (response_of(&former->sum) - trial->former_response) / trial->pairs;
	trial->other_response += (response_of(&other->sum) - trial->other_response) / trial->pairs;
}

static enum sizing_reason judge(struct sizing *sizing)
{
	struct sizing_trial *trial = &sizing->trial;
	bool is_more = trial->other > trial->former, is_other = sizing->turn.size == trial->other;
	double growth = difference(trial->other, trial->former), above;

	growth = is_more ? growth : -growth;
	/* Nobody waits any more, or statements are so long that few end: they may have more. */
	if (is_more && is_other && (!sizing->turn.sum.waiting || !is_pair_known(sizing)))
		return win(sizing);
	if (!is_pair_known(sizing))
		return is_other ? lose(sizing) : SIZING_KEEPS;
	add_pair(trial, is_other ? &sizing->turn_before : &sizing->turn,
	         is_other ? &sizing->turn : &sizing->turn_before);
	above = trial->gain - trial->pairs * WORTH * growth;
	if (above * above < CLEAR * sizing->noise * trial->pairs &&
	    trial->pairs < PAIRS_MAX * growth)
		return SIZING_KEEPS;
	return (above > 0) == is_more ? win(sizing) : lose(sizing);
}

static enum sizing_reason take_turns(struct sizing *sizing)
{
	if (sizing->turn_before.size && sizing->turn_before.size != sizing->turn.size)
		return judge(sizing);
	sizing->size = sizing->trial.other + sizing->trial.former - sizing->size;
	return SIZING_KEEPS;
}

/* Both sizes of a trial, as either may last. */
static bool is_within(const struct sizing *sizing, const struct sizing_bounds *bounds)
{
	unsigned int aim = sizing_aim(sizing),
		     former = sizing->trial.other ? sizing->trial.former : aim;

	return sizing_within(bounds, aim) == aim && sizing_within(bounds, former) == former;
}

enum sizing_reason sizing_look(struct sizing *sizing, const struct sizing_bounds *bounds,
                               const struct sizing_sample *sample)
{
	enum sizing_reason reason = SIZING_KEEPS;

	if (!is_within(sizing, bounds)) {
		sizing->size = sizing_within(bounds, sizing_aim(sizing));
		sizing_forget(sizing);
		return SIZING_BOUNDED;
	}
	if (is_quiet(sizing, sample)) {
		note_response(sizing, sample);
		return SIZING_KEEPS;
	}
	if (!add_sample(sizing, sample))
		return SIZING_KEEPS;
	if (!sizing->noise_count) {
		sizing->noise = NOISE_GUESS;
		sizing->noise_count = NOISE_GUESS_WEIGHT;
	}
	note_throughput(sizing);
	note_noise(sizing);
	note_response(sizing, &sizing->turn.sum);
	if (sizing->trial.other)
		reason = take_turns(sizing);
	return sizing->trial.other || reason != SIZING_KEEPS ? reason : rest(sizing, bounds);
}
