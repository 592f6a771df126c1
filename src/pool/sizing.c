/* SPDX-License-Identifier: ISC */
#include "pgweir/pool/sizing.h"

#define DONE_MIN 50    /* statements that say something about the response time */
#define DONE_CLEAR 100 /* and those that do so where more is at stake */
#define DONE_ENOUGH 1000
#define SAMPLES_MIN 2  /* for one size */
#define SAMPLES_MAX 4  /* then older ones count less */
#define SAMPLES_SURE 6 /* tell a small gain from none */
#define SAMPLES_LATE 8 /* what does not show by then will not */
#define GAIN_LEAST 1.04
#define MORE_PAUSE_MIN 4
#define MORE_PAUSE_MAX 64
#define LESS_PAUSE_MIN 16
#define GAIN_PAUSE 24
#define LESS_PAUSE_MAX 256

static double response_of(const struct sizing_sample *sample)
{
	return sample->done >= DONE_MIN ? (double)sample->busy / (double)sample->done : 0;
}

static double busy_of(const struct sizing_sample *sample)
{
	return sample->span > 0 ? (double)sample->busy / (double)sample->span : 0;
}

static void restart_sum(struct sizing *sizing)
{
	sizing->sum = (struct sizing_sample){ 0 };
	sizing->samples = 0;
}

void sizing_forget(struct sizing *sizing)
{
	restart_sum(sizing);
	sizing->phase = SIZING_RESTS;
	sizing->best_response = 0;
}

/* Most servers were idle: that says nothing about their number. */
static bool is_quiet(const struct sizing *sizing, const struct sizing_sample *sample)
{
	return !sample->waiting && busy_of(sample) < sizing->size / 2.0;
}

static void add_sample(struct sizing *sizing, const struct sizing_sample *sample)
{
	struct sizing_sample *sum = &sizing->sum;

	sum->waiting = sample->waiting;
	sum->is_full = sample->is_full;
	if (is_quiet(sizing, sample))
		return;
	if (sizing->phase == SIZING_RESTS && sizing->samples >= SAMPLES_MAX) {
		sum->span /= 2;
		sum->busy /= 2;
		sum->done /= 2;
	}
	sizing->samples++;
	sum->span += sample->span;
	sum->busy += sample->busy;
	sum->done += sample->done;
}

static void set_size(struct sizing *sizing, unsigned int size, enum sizing_phase phase)
{
	sizing->phase = phase;
	if (size == sizing->size)
		return;
	sizing->former_size = sizing->size;
	sizing->former_response = response_of(&sizing->sum);
	sizing->former_busy = busy_of(&sizing->sum);
	sizing->size = size;
	restart_sum(sizing);
}

static void pause_longer(struct sizing_pause *pause, unsigned int least, unsigned int most)
{
	pause->left = pause->length ? pause->length : least;
	pause->length = pause->left < most ? 2 * pause->left : most;
}

static void end_pause(struct sizing_pause *pause) { *pause = (struct sizing_pause){ 0 }; }

/* Where more servers bring nothing, and where fewer do as well, even fewer may: a trial is due. */
static void suspect(struct sizing *sizing, double response)
{
	sizing->best_response = response / 3;
}

/* ---- more ---- */

/* Whether more servers may bring now what they did not bring then. */
static bool has_changed(const struct sizing *sizing)
{
	double response = response_of(&sizing->sum);

	return sizing->sum.waiting > sizing->vain_waiting + sizing->vain_waiting / 2 + 2 ||
	       (sizing->sum.done >= DONE_CLEAR && response < 0.7 * sizing->vain_response);
}

static bool wants_more(struct sizing *sizing, const struct sizing_bounds *bounds)
{
	const struct sizing_sample *sum = &sizing->sum;

	if (sizing->more.left && has_changed(sizing))
		end_pause(&sizing->more);
	return !sizing->more.left && sum->waiting && sum->is_full && sizing->size < bounds->most;
}

static void try_more(struct sizing *sizing, const struct sizing_bounds *bounds)
{
	unsigned int more = sizing->size > 4 ? sizing->size / 2 : 2;

	if (more > sizing->sum.waiting)
		more = sizing->sum.waiting;
	if (more > bounds->most - sizing->size)
		more = bounds->most - sizing->size;
	set_size(sizing, sizing->size + more, SIZING_TRIES_MORE);
}

/* More servers have just done more, so for some time fewer are not worth a trial. */
static void note_gain(struct sizing *sizing)
{
	if (sizing->less.left < GAIN_PAUSE)
		sizing->less.left = GAIN_PAUSE;
}

static enum sizing_reason keep_more(struct sizing *sizing)
{
	sizing->phase = SIZING_RESTS;
	note_gain(sizing);
	return SIZING_KEEPS;
}

/* throughput: now, as a multiple of that with the former size. */
static enum sizing_reason give_back(struct sizing *sizing, double throughput)
{
	sizing->vain_response = sizing->former_response;
	sizing->vain_waiting = sizing->sum.waiting + sizing->size - sizing->former_size;
	pause_longer(&sizing->more, MORE_PAUSE_MIN, MORE_PAUSE_MAX);
	if (throughput < 1.03)
		suspect(sizing, sizing->former_response);
	set_size(sizing, sizing->former_size, SIZING_RESTS);
	return SIZING_NO_GAIN;
}

/*
 * A size stays if it has brought little, too: where other processes want the processors as well,
 * each server gets somewhat more of them, and twenty get much more than ten. But so little may be
 * chance: the next trial in vain is followed by a longer pause all the same.
 */
static enum sizing_reason judge_more(struct sizing *sizing)
{
	double response = response_of(&sizing->sum);
	double growth = (double)sizing->size / sizing->former_size;
	double throughput, gain;
	bool is_certain;

	if (!sizing->sum.waiting)
		return keep_more(sizing);
	/* Statements so long that few have ended are not asked for long. */
	if (response <= 0 || sizing->former_response <= 0)
		return sizing->samples < SAMPLES_MIN ? SIZING_KEEPS : keep_more(sizing);
	throughput = growth * sizing->former_response / response;
	gain = (throughput - 1) / (growth - 1);
	is_certain = sizing->samples >= SAMPLES_LATE ||
	             (sizing->samples >= SAMPLES_MIN && sizing->sum.done >= DONE_ENOUGH);
	if (gain >= 0.75 || (gain >= 0.5 && is_certain)) {
		end_pause(&sizing->more);
		return keep_more(sizing);
	}
	/* Chance would rather hold it back for long than let it grow in vain. */
	if (!is_certain || (throughput > 1 && sizing->samples < SAMPLES_SURE))
		return SIZING_KEEPS;
	return throughput > GAIN_LEAST ? keep_more(sizing) : give_back(sizing, throughput);
}

/* ---- less ---- */

/* The size that would have the best response time, if that depends on the size; not far below. */
static unsigned int lesser(const struct sizing *sizing, const struct sizing_bounds *bounds)
{
	double busy = busy_of(&sizing->sum);
	double best = busy * sizing->best_response / response_of(&sizing->sum);
	unsigned int size = 2 + (unsigned int)best, two_thirds = 1 + (unsigned int)(busy * 2 / 3);

	size = size > two_thirds ? size : two_thirds;
	return size > bounds->least ? size : bounds->least;
}

static bool wants_less(const struct sizing *sizing, const struct sizing_bounds *bounds)
{
	const struct sizing_sample *sum = &sizing->sum;

	return !sizing->less.left && sum->done >= DONE_CLEAR &&
	       response_of(sum) > 2 * sizing->best_response &&
	       lesser(sizing, bounds) < busy_of(sum) && lesser(sizing, bounds) < sizing->size;
}

static enum sizing_reason take_back(struct sizing *sizing)
{
	double response = sizing->former_response;

	pause_longer(&sizing->less, LESS_PAUSE_MIN, LESS_PAUSE_MAX);
	set_size(sizing, sizing->former_size, SIZING_RESTS);
	sizing->best_response = response; /* it is not the size that makes it longer */
	return SIZING_LESS_DONE;
}

static enum sizing_reason judge_less(struct sizing *sizing)
{
	double response = response_of(&sizing->sum), busy = busy_of(&sizing->sum);
	double throughput;

	if (sizing->sum.waiting && busy > sizing->size * 1.1 + 0.5)
		return sizing->samples < SAMPLES_LATE ? SIZING_KEEPS : take_back(sizing);
	if (sizing->sum.waiting && response <= 0)
		return sizing->samples < SAMPLES_MAX ? SIZING_KEEPS : take_back(sizing);
	throughput =
	    response > 0 ? busy * sizing->former_response / (sizing->former_busy * response) : 1;
	if (sizing->sum.waiting && sizing->samples < SAMPLES_MAX && throughput < 1.02 &&
	    throughput > 0.85)
		return SIZING_KEEPS;
	sizing->more.left = sizing->more.left > MORE_PAUSE_MIN ? sizing->more.left : MORE_PAUSE_MIN;
	if (sizing->sum.waiting && throughput < 0.97)
		return take_back(sizing);
	sizing->phase = SIZING_RESTS;
	end_pause(&sizing->less);
	if (sizing->sum.waiting && response > 0)
		suspect(sizing, response);
	return SIZING_KEEPS;
}

/* ---- each sample ---- */

/* When most servers are idle, it is as good as it may be. */
static void note_response(struct sizing *sizing, const struct sizing_sample *sample)
{
	double response = response_of(is_quiet(sizing, sample) ? sample : &sizing->sum);

	if (response > 0 && (sizing->best_response <= 0 || response < sizing->best_response))
		sizing->best_response = response;
}

static enum sizing_reason rest(struct sizing *sizing, const struct sizing_bounds *bounds,
                               const struct sizing_sample *sample)
{
	note_response(sizing, sample);
	if (is_quiet(sizing, sample))
		return SIZING_KEEPS;
	sizing->more.left -= sizing->more.left > 0;
	sizing->less.left -= sizing->less.left > 0;
	if (wants_less(sizing, bounds)) {
		set_size(sizing, lesser(sizing, bounds), SIZING_TRIES_LESS);
		return SIZING_SLOW;
	}
	if (wants_more(sizing, bounds)) {
		try_more(sizing, bounds);
		return SIZING_WAITING;
	}
	return SIZING_KEEPS;
}

static bool fit(struct sizing *sizing, const struct sizing_bounds *bounds)
{
	unsigned int size = sizing_within(bounds, sizing->size);

	if (size == sizing->size)
		return false;
	set_size(sizing, size, SIZING_RESTS);
	return true;
}

enum sizing_reason sizing_look(struct sizing *sizing, const struct sizing_bounds *bounds,
                               const struct sizing_sample *sample)
{
	if (fit(sizing, bounds))
		return SIZING_BOUNDED;
	add_sample(sizing, sample);
	if (sizing->phase == SIZING_RESTS)
		return rest(sizing, bounds, sample);
	if (is_quiet(sizing, sample))
		return SIZING_KEEPS;
	if (sizing->phase == SIZING_TRIES_MORE)
		return judge_more(sizing);
	return judge_less(sizing);
}
