/* SPDX-License-Identifier: ISC */
#include "pgweir/pool/sizing.h"

#define DONE_MIN 50  /* statements that say something about the response time */
#define PER_SERVER 4 /* and for each server, of which the one that a switch cuts is a part */
#define TURN_MAX (2 * USEC_PER_SEC) /* then a turn is over without them */
#define LEAST 0.01 /* that matters: 2 % of the throughput, as a difference; a part of the work */
/*
 * 3 would be odds of 20 to 1; 1.57 mean squares are one of mean differences. It is looked at after
 * each pair, and where both do as much there is no end to it: for more servers it must be clearer,
 * or every fifth such trial would add some.
 */
#define CLEAR 4.7
#define CLEAR_FOR_MORE 6.5
#define TRIAL_MAX (90 * USEC_PER_SEC) /* a half of it for three times as many: less is at stake */
#define NOISE_GUESS 0.05              /* of a restless machine, until it is known */
#define NOISE_GUESS_WEIGHT 4
#define NOISE_WEIGHT_MAX 64
#define WANTED_WEIGHT 4
#define PAUSE_MIN (20 * USEC_PER_SEC) /* in one direction, after a trial in vain */
#define DOUBLINGS 3                   /* of it, after more of them */

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
	if (sizing->trial.other && size != sizing->turn.size)
		sizing->wanted = sizing->trial.wanted;
	sizing->size = size;
	sizing->trial.other = 0;
}

void sizing_forget(struct sizing *sizing)
{
	end_trial(sizing, sizing->size);
	sizing->turn = sizing->turn_before = (struct sizing_turn){ 0 };
	sizing->best_response = sizing->wanted = 0;
}

/* Of a throughput, or a size: from -1 to 1, and the other way round as much. */
static double difference(double a, double b) { return (a - b) / (a + b); }

static double positive(double number) { return number < 0 ? -number : number; }

/* ---- turns ---- */

static bool is_over(const struct sizing_turn *turn)
{
	return turn->sum.span >= TURN_MAX ||
	       (turn->sum.done >= DONE_MIN && turn->sum.done >= PER_SERVER * turn->size);
}

/*
 * Whether the turn is over. The first sample of another size is left out: what the larger size has
 * begun ends in the turn of the smaller one, and the kernel has yet to spread the processes.
 */
static bool add_sample(struct sizing *sizing, const struct sizing_sample *sample)
{
	struct sizing_turn *turn = &sizing->turn;
	struct sizing_sample *sum = &turn->sum;

	sizing->trial.lasted += sample->span;
	if (is_over(turn)) {
		sizing->turn_before = *turn;
		*turn = (struct sizing_turn){ .size = sizing->size };
		if (turn->size != sizing->turn_before.size)
			return false;
	}
	turn->size = sizing->size;
	sum->is_full = sample->is_full;
	sum->span += sample->span;
	sum->busy += sample->busy;
	sum->done += sample->done;
	return is_over(turn);
}

/*
 * Servers that are idle while nobody waits would not have done more; but when the load ends for a
 * moment, that says nothing about their number.
 */
static void note_throughput(struct sizing *sizing)
{
	struct sizing_turn *turn = &sizing->turn;
	double response = response_of(&turn->sum);

	if (response > 0)
		turn->throughput =
		    (sizing->wanted < turn->size ? sizing->wanted : turn->size) / response;
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
	sizing->noise += (positive(differs) - sizing->noise) / sizing->noise_count;
}

/* One sample is too short: those that wait at its end do not wait on average. */
static void note_wanted(struct sizing *sizing, const struct sizing_sample *sample)
{
	double wanted = busy_of(sample) + sample->waiting;

	sizing->wanted += (wanted - sizing->wanted) / (sizing->wanted > 0 ? WANTED_WEIGHT : 1);
}

/* When most servers are idle, it is as good as it may be. */
static void note_response(struct sizing *sizing, const struct sizing_sample *sample)
{
	double response = response_of(sample);

	if (response > 0 && (sizing->best_response <= 0 || response < sizing->best_response))
		sizing->best_response = response;
}

/* ---- the next trial ---- */

static unsigned int more_than(const struct sizing *sizing, const struct sizing_bounds *bounds,
                              unsigned int waiting)
{
	unsigned int size = sizing->size, more = sizing->vain_more.is_near ? size / 2 : 2 * size;

	if (more < 1)
		more = 1;
	if (more > waiting)
		more = waiting;
	return more < bounds->most - size ? size + more : bounds->most;
}

static unsigned int less_than(const struct sizing *sizing, const struct sizing_bounds *bounds)
{
	unsigned int size = sizing->size, less = size / (sizing->vain_less.is_near ? 4 : 2);

	if (less < 1)
		less = 1;
	return size > bounds->least + less ? size - less : bounds->least;
}

/* In a trial in the other direction, too. */
static void pass(struct sizing_vain *vain, usec_t span)
{
	vain->pause -= vain->pause < span ? vain->pause : span;
}

static void try(struct sizing *sizing, unsigned int size)
{
	sizing->trial = (struct sizing_trial){
		.former = sizing->size,
		.other = size,
		.former_response = response_of(&sizing->turn.sum),
	};
	sizing->size = size;
	sizing->wanted_then = sizing->wanted;
	sizing->trial.wanted = sizing->wanted;
	sizing->wanted = 0;
}

static void forget_vain(struct sizing *sizing)
{
	sizing->vain_more = sizing->vain_less = (struct sizing_vain){ 0 };
}

/* Many more clients, or statements three times as long or short: that is another load. */
static bool has_changed(const struct sizing *sizing, unsigned int waiting)
{
	double now = response_of(&sizing->turn.sum), before = response_of(&sizing->turn_before.sum);
	double then = sizing->response_then;

	if (waiting > 1.5 * sizing_waiting(sizing->wanted_then, sizing->size) + 2)
		return true;
	if (now <= 0 || before <= 0 || then <= 0)
		return false;
	return (now > 3 * then && before > 3 * then) || (3 * now < then && 3 * before < then);
}

static enum sizing_reason rest(struct sizing *sizing, const struct sizing_bounds *bounds)
{
	const struct sizing_sample *sum = &sizing->turn.sum;
	unsigned int size = sizing->size, more = size, less = size;
	unsigned int waiting = sizing_waiting(sizing->wanted, size);

	if (has_changed(sizing, waiting)) {
		forget_vain(sizing);
		sizing->response_then = response_of(sum);
	}
	if (waiting && sum->is_full && !sizing->vain_more.pause)
		more = more_than(sizing, bounds, waiting);
	if ((waiting || response_of(sum) > 2 * sizing->best_response) && !sizing->vain_less.pause &&
	    sizing->turn.throughput > 0)
		less = less_than(sizing, bounds);
	if (less < size && (more == size || sizing->vain_less.count < sizing->vain_more.count)) {
		try(sizing, less);
		return SIZING_SLOW;
	}
	if (more == size)
		return SIZING_KEEPS;
	try(sizing, more);
	return SIZING_WAITING;
}

/* ---- its end ---- */

/* What was in vain beside the former size says little about this one. */
static enum sizing_reason win(struct sizing *sizing)
{
	const struct sizing_trial *trial = &sizing->trial;

	forget_vain(sizing);
	if (trial->other > trial->former)
		sizing->vain_less.pause = PAUSE_MIN;
	else /* not as many as before at once */
		sizing->vain_more = (struct sizing_vain){ .pause = PAUSE_MIN, .is_near = true };
	sizing->response_then = trial->other_response;
	end_trial(sizing, trial->other);
	return SIZING_KEEPS;
}

/*
 * The worse size is not tried again soon: what it has lost, in half of the trial, is to be little
 * beside what is done until then.
 */
static enum sizing_reason lose(struct sizing *sizing)
{
	const struct sizing_trial *trial = &sizing->trial;
	bool is_less = trial->other < trial->former;
	struct sizing_vain *vain = is_less ? &sizing->vain_less : &sizing->vain_more;
	double loss = trial->pairs ? (is_less ? trial->gain : -trial->gain) / trial->pairs : 0;
	double pause = (double)trial->lasted * loss / (1 + loss) / LEAST;

	vain->pause = PAUSE_MIN << vain->count;
	if (pause > (double)vain->pause)
		vain->pause = (usec_t)pause;
	vain->count += vain->count < DOUBLINGS;
	vain->is_near = !vain->is_near;
	sizing->response_then = trial->former_response;
	end_trial(sizing, trial->former);
	return is_less ? SIZING_LESS_DONE : SIZING_NO_GAIN;
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

/*
 * The logarithm of how much likelier a gain is than a loss of the same size: the one that is seen,
 * or the least that matters. So a trial is short in which one size is far worse.
 */
static bool is_clear(const struct sizing *sizing, double above)
{
	bool is_for_more = above > 0 && sizing->trial.other > sizing->trial.former;
	double size = positive(above), mean = size / sizing->trial.pairs;

	return size * (mean > 2 * LEAST ? mean : 2 * LEAST) >
	       (is_for_more ? CLEAR_FOR_MORE : CLEAR) * sizing->noise * sizing->noise;
}

static enum sizing_reason judge(struct sizing *sizing)
{
	struct sizing_trial *trial = &sizing->trial;
	bool is_more = trial->other > trial->former, is_other = sizing->turn.size == trial->other;
	double growth = positive(difference(trial->other, trial->former)), above;
	bool is_enough = 2 * sizing->wanted < trial->former + trial->other;

	if (sizing->wanted > sizing->wanted_then)
		sizing->wanted_then = sizing->wanted;
	/* Statements are so long that few end: they may have more. */
	if (!is_pair_known(sizing) && is_other)
		return is_more ? win(sizing) : lose(sizing);
	if (!is_pair_known(sizing))
		return SIZING_KEEPS;
	add_pair(trial, is_other ? &sizing->turn_before : &sizing->turn,
	         is_other ? &sizing->turn : &sizing->turn_before);
	above = trial->gain - trial->pairs * LEAST;
	if (is_clear(sizing, above))
		return (above > 0) == is_more ? win(sizing) : lose(sizing);
	/* Few wait any more, and hardly less is done. */
	if (is_more && is_other && is_enough)
		return win(sizing);
	return (double)trial->lasted < TRIAL_MAX * growth ? SIZING_KEEPS : lose(sizing);
}

static enum sizing_reason take_turns(struct sizing *sizing)
{
	double wanted = sizing->wanted;

	if (sizing->turn_before.size && sizing->turn_before.size != sizing->turn.size)
		return judge(sizing);
	sizing->size = sizing->trial.other + sizing->trial.former - sizing->size;
	/* as many clients want fewer servers if each waits longer for PostgreSQL */
	sizing->wanted = sizing->trial.wanted;
	sizing->trial.wanted = wanted;
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
	note_wanted(sizing, sample);
	if (!add_sample(sizing, sample))
		return SIZING_KEEPS;
	if (!sizing->noise_count) {
		sizing->noise = NOISE_GUESS;
		sizing->noise_count = NOISE_GUESS_WEIGHT;
	}
	note_throughput(sizing);
	note_noise(sizing);
	note_response(sizing, &sizing->turn.sum);
	pass(&sizing->vain_more, sizing->turn.sum.span);
	pass(&sizing->vain_less, sizing->turn.sum.span);
	if (sizing->trial.other)
		reason = take_turns(sizing);
	return sizing->trial.other || reason != SIZING_KEEPS ? reason : rest(sizing, bounds);
}
