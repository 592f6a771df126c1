/* SPDX-License-Identifier: ISC */
/*
 * load: many clients on few servers; each client checks that every result is its own.
 * Exit status 0: no error; 1: errors found; 2: the run was not possible.
 */
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <event2/event.h>

#include "activity.h"
#include "canceller.h"
#include "client.h"
#include "load.h"
#include "verify.h"

static const char usage[] =
    "Usage: load [OPTION]... CONNINFO\n"
    "Runs many clients against the pooler at CONNINFO; each checks every response.\n"
    "\n"
    "  -c, --clients=N      number of clients (200)\n"
    "  -s, --seconds=N      duration (60)\n"
    "  -p, --patience=N     maximum seconds for each response (60)\n"
    "  -v, --verify=CONNINFO  where the table is created and compared (CONNINFO)\n"
    "  -o, --only=NAME      run only this activity\n"
    "  -r, --random=N       seed of the random choices (1)\n"
    "  -l, --list           list the activities and their frequency\n"
    "  -h, --help           print this help\n";

static const struct option long_options[] = {
	{ "clients", required_argument, NULL, 'c' },
	{ "seconds", required_argument, NULL, 's' },
	{ "patience", required_argument, NULL, 'p' },
	{ "verify", required_argument, NULL, 'v' },
	{ "only", required_argument, NULL, 'o' },
	{ "random", required_argument, NULL, 'r' },
	{ "list", no_argument, NULL, 'l' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

unsigned int load_random(struct load *load, unsigned int limit)
{
	/* splitmix64 */
	uint64_t mixed = (load->random_state += UINT64_C(0x9e3779b97f4a7c15));

	mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (unsigned int)((mixed ^ (mixed >> 31)) % limit);
}

static unsigned int number_of(const char *text)
{
	char *end;
	unsigned long number = strtoul(text, &end, 10);

	if (*end || end == text || number == 0 || number > 1000000) {
		fprintf(stderr, "load: not a number in 1 .. 1000000: %s\n", text);
		exit(2);
	}
	return (unsigned int)number;
}

static void read_option(struct load_options *options, int letter)
{
	switch (letter) {
	case 'c':
		options->clients = number_of(optarg);
		break;
	case 's':
		options->seconds = number_of(optarg);
		break;
	case 'p':
		options->patience_seconds = number_of(optarg);
		break;
	case 'v':
		options->verify_conninfo = optarg;
		break;
	case 'o':
		options->only = optarg;
		break;
	case 'r':
		options->seed = number_of(optarg);
		break;
	case 'l':
		activity_list();
		exit(0);
	case 'h':
		fputs(usage, stdout);
		exit(0);
	default:
		fputs(usage, stderr);
		exit(2);
	}
}

static void read_options(struct load_options *options, int argc, char **argv)
{
	int letter;

	*options = (struct load_options){
		.clients = 200, .seconds = 60, .patience_seconds = 60, .seed = 1
	};
	while ((letter = getopt_long(argc, argv, "c:s:p:v:o:r:lh", long_options, NULL)) != -1)
		read_option(options, letter);
	if (optind + 1 != argc)
		read_option(options, '?');
	options->conninfo = argv[optind];
	if (!options->verify_conninfo)
		options->verify_conninfo = options->conninfo;
	if (options->only && !activity_exists(options->only)) {
		fprintf(stderr, "load: no such activity: %s\n", options->only);
		exit(2);
	}
}

static void on_end(evutil_socket_t fd, short what, void *arg)
{
	struct load *load = arg;

	(void)fd;
	(void)what;
	load->is_ending = true;
}

/* Ends when each client has finished; each has a deadline. */
static void run(struct load *load, struct client *clients)
{
	struct event *end = evtimer_new(load->base, on_end, load);
	struct timeval wait = { .tv_sec = load->options.seconds };

	event_add(end, &wait);
	load->clients_left = load->options.clients;
	for (unsigned int i = 0; i < load->options.clients; i++)
		client_start(&clients[i], load, i + 1);
	event_base_dispatch(load->base);
	event_free(end);
}

static int judge(struct load *load, struct client *clients)
{
	const uint64_t *counts = load->tally.counts;

	if (!verify_table(load, clients))
		return 2;
	if (counts[TALLY_CANCELS] >= 100 && counts[TALLY_CANCELLED] == 0)
		tally_wrong(&load->tally, "not one of %" PRIu64 " cancels had an effect",
		            counts[TALLY_CANCELS]);
	tally_print(&load->tally);
	printf("load: %" PRIu64 " statements, %u clients, %" PRIu64 " wrong answers\n",
	       counts[TALLY_STATEMENTS], load->options.clients, counts[TALLY_WRONG]);
	return counts[TALLY_WRONG] == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
	struct load load = { 0 };
	struct client *clients;
	int status = 2;

	read_options(&load.options, argc, argv);
	signal(SIGPIPE, SIG_IGN);
	load.random_state = load.options.seed;
	load.base = event_base_new();
	clients = calloc(load.options.clients, sizeof(*clients));
	if (load.base)
		load.canceller = canceller_new(load.base, client_on_cancelled);
	if (clients && load.canceller && verify_prepare(&load)) {
		run(&load, clients);
		status = judge(&load, clients);
		for (unsigned int i = 0; i < load.options.clients; i++)
			client_done(&clients[i]);
	}
	canceller_free(&load.canceller);
	if (load.base)
		event_base_free(load.base);
	free(clients);
	return status;
}
