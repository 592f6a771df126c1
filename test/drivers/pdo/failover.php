<?php
// SPDX-License-Identifier: ISC
// PDO while hosts fail, one client: see python/failover.py. The argument is "prepared" or "emulated".

const PAUSE_US = 5000;
const INSERT = 'INSERT INTO written VALUES (?)';

$count = 0;
$rows = [];
$stage = 'connect';

function new_row(string $kind): string
{
	global $count, $rows;
	return $rows[] = getenv('PGAPPNAME') . "/$kind/" . ++$count;
}

function insert(PDO $db, string $kind): void
{
	$db->prepare(INSERT)->execute([new_row($kind)]);
}

function autocommit(PDO $db): void
{
	insert($db, 'autocommit');
}

function simple(PDO $db): void
{
	$db->exec("INSERT INTO written VALUES ('" . new_row('simple') . "')");
}

function transaction(PDO $db): void
{
	global $stage;
	$stage = 'begin';
	$db->beginTransaction();
	$stage = 'work';
	insert($db, 'transaction');
	insert($db, 'transaction');
	$stage = 'commit';
	$db->commit();
}

function connect(): PDO
{
	$options = [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION,
		PDO::ATTR_EMULATE_PREPARES => $GLOBALS['argv'][1] === 'emulated'];
	return new PDO(sprintf('pgsql:host=%s;port=%s;dbname=%s', getenv('PGHOST'), getenv('PGPORT'),
		getenv('PGDATABASE')), getenv('PGUSER'), '', $options);
}

function is_over(): bool
{
	$read = [STDIN];
	$none = null;
	return stream_select($read, $none, $none, 0, PAUSE_US) > 0;
}

$db = null;
for ($turn = 0; !is_over(); $turn++) {
	$kind = ['autocommit', 'simple', 'transaction'][$turn % 3];
	$rows = [];
	$stage = 'connect';
	try {
		$db ??= connect();
		$stage = 'work';
		$kind($db);
		$line = ['ok', $kind, implode(' ', $rows)];
	} catch (PDOException $error) {
		$words = strtr($error->getMessage(), "\n\t", '  ');
		$line = ['failed', $kind, $stage, $error->errorInfo[0] ?? '-', $words, implode(' ', $rows)];
		$db = null;
	}
	echo implode("\t", $line), "\n";
}
